#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "kernels/attention/attention.h"

namespace trireme {

inline AttentionShape attention_shape(int64_t num_sequences, int64_t q_len, int64_t kv_len,
                                      int64_t num_heads, int64_t num_kv_heads, int64_t head_dim) {
  return {num_sequences,
          q_len,
          kv_len,
          num_heads,
          num_kv_heads,
          head_dim,
          1.0f / std::sqrt(float(head_dim))};
}

inline std::string text_of(const AttentionShape& shape) {
  return std::to_string(shape.num_sequences) + "x" + std::to_string(shape.q_len) +
         (shape.kv_len == shape.q_len ? "" : "/" + std::to_string(shape.kv_len)) + " heads " +
         std::to_string(shape.num_heads) +
         (shape.num_kv_heads == shape.num_heads ? "" : "/" + std::to_string(shape.num_kv_heads)) +
         "x" + std::to_string(shape.head_dim) +
         (shape.value_dim == 0 ? "" : " values x" + std::to_string(shape.value_dim));
}

inline AttentionShape not_causal(AttentionShape shape) {
  shape.causal = false;
  return shape;
}

inline AttentionShape with_values_of(int64_t value_dim, AttentionShape shape) {
  shape.value_dim = value_dim;
  return shape;
}

// Shapes that miss every multiple of a tile, a vector or a pair; shared kv heads; decoding;
// non-causal queries, fewer and more than keys; values of another width than keys.
inline std::vector<AttentionShape> odd_attention_shapes() {
  return {not_causal(attention_shape(2, 65, 65, 2, 1, 16)),
          not_causal(attention_shape(1, 140, 70, 4, 2, 20)),
          not_causal(attention_shape(2, 35, 210, 2, 2, 64)),
          attention_shape(1, 1, 1, 1, 1, 4),
          attention_shape(2, 2, 2, 2, 1, 4),
          attention_shape(1, 7, 7, 1, 1, 3),
          attention_shape(1, 16, 16, 4, 4, 4),
          attention_shape(2, 65, 65, 2, 2, 16),
          attention_shape(1, 64, 64, 1, 1, 64),
          attention_shape(1, 130, 130, 4, 2, 32),
          attention_shape(1, 97, 97, 3, 1, 80),
          attention_shape(1, 33, 33, 1, 1, 128),
          attention_shape(1, 20, 20, 1, 1, 131),
          attention_shape(3, 1, 50, 2, 1, 64),
          attention_shape(3, 1, 150, 2, 2, 20),
          not_causal(attention_shape(2, 1, 70, 2, 2, 17)),
          with_values_of(35, attention_shape(1, 1, 129, 2, 2, 18)),
          attention_shape(1, 5, 200, 2, 2, 17),
          attention_shape(1, 3, 70, 8, 1, 20),
          attention_shape(1, 3, 70, 2, 1, 17),
          with_values_of(35, attention_shape(1, 3, 129, 8, 1, 17)),
          attention_shape(2, 1, 130, 7, 1, 64),
          attention_shape(2, 70, 135, 2, 1, 64),
          attention_shape(1, 210, 210, 1, 1, 64),
          with_values_of(32, attention_shape(1, 130, 130, 2, 2, 48)),
          with_values_of(40, attention_shape(2, 70, 135, 4, 1, 17))};
}

// Shapes that are trained: GPT-2 124M, 6 layers x 384, nano-char, and a model with shared kv heads.
inline std::vector<AttentionShape> training_attention_shapes() {
  return {attention_shape(1, 1024, 1024, 12, 12, 64), attention_shape(4, 64, 64, 12, 12, 64),
          attention_shape(8, 256, 256, 6, 6, 64),     attention_shape(12, 64, 64, 4, 4, 32),
          attention_shape(1, 1024, 1024, 12, 3, 64),  attention_shape(1, 1024, 1024, 8, 8, 128),
          attention_shape(1, 4096, 4096, 2, 2, 64),   attention_shape(1, 16, 16, 4, 4, 4)};
}

// A single query, as generation has it; from one to eight query heads share a kv head.
inline std::vector<AttentionShape> decoding_attention_shapes() {
  return {attention_shape(1, 1, 1024, 12, 12, 64), attention_shape(1, 1, 1024, 12, 6, 64),
          attention_shape(1, 1, 1024, 12, 3, 64), attention_shape(1, 1, 1024, 16, 2, 64),
          attention_shape(1, 1, 1024, 16, 4, 128)};
}

}  // namespace trireme
