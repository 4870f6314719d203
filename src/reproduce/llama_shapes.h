#pragma once

#include "reproduce/published_run.h"

namespace trireme {

constexpr GptShape llama_shape(int64_t layers, int64_t d_model, int64_t heads, int64_t d_ff,
                               int64_t kv_heads, int64_t seq_len, int64_t vocab_size) {
  return {.layers = layers,
          .d_model = d_model,
          .heads = heads,
          .seq_len = seq_len,
          .vocab_size = vocab_size,
          .dropout = 0.0,
          .d_ff = d_ff,
          .kv_heads = kv_heads};
}

// The models of Touvron et al. 2023 (arXiv:2307.09288) and Grattafiori et al. 2024
// (arXiv:2407.21783, table 3).
inline constexpr GptShape kLlama2_7b = llama_shape(32, 4096, 32, 11008, 32, 4096, 32000);
inline constexpr GptShape kLlama2_13b = llama_shape(40, 5120, 40, 13824, 40, 4096, 32000);
inline constexpr GptShape kLlama2_34b = llama_shape(48, 8192, 64, 22016, 8, 4096, 32000);
inline constexpr GptShape kLlama2_70b = llama_shape(80, 8192, 64, 28672, 8, 4096, 32000);
inline constexpr GptShape kLlama3_8b = llama_shape(32, 4096, 32, 14336, 8, 8192, 128256);
inline constexpr GptShape kLlama3_70b = llama_shape(80, 8192, 64, 28672, 8, 8192, 128256);
inline constexpr GptShape kLlama3_405b = llama_shape(126, 16384, 128, 53248, 8, 8192, 128256);

}  // namespace trireme
