#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace trireme {

// How a key of RUN.toml stands in the job of another trainer.
enum class Say : uint8_t {
  Same,    // the same value under their key
  Flag,    // their key is there if the value is true
  NoFlag,  // their key is there if the value is false
  Code,    // functions of the trainer's file write and read it
  Only,    // the trainer has a single value of it; a layout with another one is refused
  Tuning,  // theirs to choose: it changes neither the result nor the split of the model
};

struct WordPair {
  std::string_view ours;
  std::string_view theirs;
};

// A row of the table of a trainer. Both directions, docs/exports.md and the tests read these
// tables. Each has one row for every key of [model], [batch], [optim], [parallel], [memory] and
// [precision]. usual_keys.cc has the rows that are the same for most trainers.
struct KeyPair {
  std::string_view ours;
  Say say = Say::Same;
  std::string_view theirs = {};  // Code: all its keys, separated by spaces
  // Same: their default, "" if they have none. Only: the value of ours that they have, as TOML.
  std::string_view value = {};
  std::string_view why = {};             // Only: what the trainer lacks
  std::span<const WordPair> words = {};  // Same: their words for the values of a choice
};

inline constexpr std::string_view kNoImages = "its models read tokens";
inline constexpr std::string_view kNoAdapters = "the job that we write trains every parameter";
inline constexpr std::string_view kPlainRope = "the job that we write has no YaRN";
inline constexpr std::string_view kUsualStrategies = "it has no strategies of single layers";
inline constexpr std::string_view kNextToken =
    "the job that we write predicts the next token alone";
inline constexpr std::string_view kPlainAttention =
    "the job that we write has attention to all keys, without latents or a norm of queries and "
    "keys";
inline constexpr std::string_view kEvenStages =
    "the job that we write has equally many ranks at every stage and splits the layers by their "
    "cost";
inline constexpr std::string_view kPlainWeights =
    "the weights of its routed experts have no further factor";

using KeyTable = std::span<const KeyPair>;

// Adds the usual rows of all keys that `own` does not name.
std::vector<KeyPair> with_usual_keys(KeyTable own);

// Tables, [JobTrainer].
KeyTable megatron_keys();
KeyTable torchtitan_keys();
KeyTable deepspeed_keys();
KeyTable nanotron_keys();
KeyTable accelerate_keys();

}  // namespace trireme
