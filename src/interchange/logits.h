#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interchange/weights.h"

namespace trireme {

// The logits [T, V] behind each of the tokens, computed in fp32. There are 1 .. seq_len tokens, all
// of the vocabulary.
std::vector<float> logits_of(const Weights& weights, std::span<const int32_t> tokens,
                             int num_threads);

// A few tokens from all over the vocabulary: models with equal logits there are taken for equal.
std::vector<int32_t> probe_tokens(const ModelSpec& model);

}  // namespace trireme
