#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interchange/weights.h"

namespace trireme {

// Returns the logits [T, V] after each of the tokens, computed in fp32. There must be 1 to seq_len
// tokens of the vocabulary.
std::vector<float> logits_of(const Weights& weights, std::span<const int32_t> tokens,
                             int num_threads);

// A few tokens from the whole vocabulary. Models with equal logits for them are considered equal.
std::vector<int32_t> probe_tokens(const ModelSpec& model);

}  // namespace trireme
