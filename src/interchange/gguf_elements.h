#pragma once

#include <span>
#include <vector>

#include "interchange/gguf.h"

namespace trireme {

// Encodes elements. Returns the index of the first one that the type cannot hold, or -1.
int64_t encode_ggml(GgmlType type, std::span<const float> elements, std::vector<std::byte>& bytes);
// Decodes elements. Returns the index of the first NaN or Inf, or -1.
int64_t decode_ggml(GgmlType type, std::span<const std::byte> bytes, std::span<float> elements);

}  // namespace trireme
