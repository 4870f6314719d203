#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "interchange/gguf.h"

namespace trireme {

// Refuses a header that is not version 3 or not little-endian, reaches beyond the file, has a key
// or tensor twice, or has tensors that overlap or are not aligned.
Result<GgufHeader> parse_gguf_header(std::span<const std::byte> bytes, int64_t file_bytes);

}  // namespace trireme
