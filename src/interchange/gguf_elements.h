#pragma once

#include <span>
#include <vector>

#include "interchange/gguf.h"

namespace trireme {

// Elements as a tensor keeps them. Returns the index of the first that the type cannot hold, or -1.
int64_t encode_ggml(GgmlType type, std::span<const float> elements, std::vector<std::byte>& bytes);
// The reverse; -1, or the index of a NaN or Inf.
int64_t decode_ggml(GgmlType type, std::span<const std::byte> bytes, std::span<float> elements);

}  // namespace trireme
