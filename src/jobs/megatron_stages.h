#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// One stage of a pipeline of Megatron-LM, by what it holds.
struct MegatronStage {
  int64_t layers = 0;
  int64_t ahead = 0;  // modules that predict further tokens
  bool has_embedding = false;
  bool has_loss = false;
};

// The stages of --pipeline-model-parallel-layout, such as "Et*7|(t*9|)*2,t*7mL": E is the
// embedding, t a layer, m a module that predicts a further token, L the loss, and | the end of a
// stage; n copies of a letter or of a part in parentheses are written with *n, and commas mean
// nothing. The order is that of the layers. Returns nullopt for any other text, for text without
// the embedding first and the loss last, and for more than `most` letters.
std::optional<std::vector<MegatronStage>> parse_megatron_stages(std::string_view text, size_t most);

// The text of stages with so many layers, [stage], the modules ahead before the loss.
std::string megatron_stages_text(std::span<const int64_t> stage_layers, int64_t modules_ahead);

// How Megatron-LM itself cuts layers into stages.
struct MegatronCut {
  int64_t layers = 0;
  int64_t pp = 1;
  int64_t chunks = 1;                            // virtual stages of a rank
  std::optional<int64_t> first_rank, last_rank;  // layers, if they are given
  bool counts_embedding = false;                 // as a layer of the first stage
  bool counts_loss = false;                      // as a layer of the last one
};
// Returns the layers of every stage in the order of the layers, or nullopt if they cannot be cut
// so.
std::optional<std::vector<int64_t>> megatron_stages(const MegatronCut& cut);

}  // namespace trireme
