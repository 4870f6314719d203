#pragma once

#include <cstdint>

namespace trireme {

struct EmbeddingShape {
  int64_t num_tokens;
  int64_t vocab_size;
  int64_t d_model;
  int64_t seq_len;
};

// 1, odd sizes, one tile and several; vocabularies so small that tokens repeat.
inline constexpr EmbeddingShape kEmbeddingShapes[] = {
    {1, 1, 1, 1}, {6, 5, 7, 3}, {8, 3, 16, 8}, {9, 11, 65, 3}, {96, 40, 515, 32}};
inline constexpr EmbeddingShape kEmbeddingBenchShape = {4096, 50257, 768, 1024};

}  // namespace trireme
