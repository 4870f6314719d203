#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/dtype.h"
#include "base/result.h"

namespace trireme {

// The header of a GPT-2 file of llm.c (docs/formats/llmc.md).
inline constexpr int64_t kLlmcHeaderBytes = 1024;
inline constexpr int32_t kLlmcModelMagic = 20240326;

struct LlmcModelHeader {
  DType dtype = DType::F32;
  int64_t seq_len = 0;
  int64_t vocab_size = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t d_model = 0;
  int64_t padded_vocab_size = 0;
};

// Size of the whole file that a header describes.
int64_t llmc_file_bytes(const LlmcModelHeader& header);

// Parses the start of a file. A header that contradicts itself is refused.
Result<LlmcModelHeader> parse_llmc_model_header(std::span<const std::byte> bytes);
std::string print_llmc_model_header(const LlmcModelHeader& header);

}  // namespace trireme
