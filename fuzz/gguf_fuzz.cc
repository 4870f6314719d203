#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "interchange/parse_gguf.h"
#include "interchange/print_gguf.h"

// The header of a GGUF file: it is refused, or its tensors lie inside the file, and printing and
// parsing it again gives the same header.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  // The header can be read without the data after it.
  constexpr int64_t kFileBytes = int64_t{1} << 40;
  auto header = trireme::parse_gguf_header(bytes, kFileBytes);
  if (!header.ok()) {
    if (header.error().message.empty()) std::abort();
    return 0;
  }
  for (const trireme::GgufTensor& tensor : header->tensors) {
    if (tensor.bytes() < 0 || header->data_offset + tensor.offset + tensor.bytes() > kFileBytes) {
      std::abort();
    }
  }
  const std::string printed = trireme::print_gguf_header(*header);
  auto again = trireme::parse_gguf_header(std::as_bytes(std::span(printed)), INT64_MAX / 4);
  if (!again.ok() || trireme::print_gguf_header(*again) != printed) std::abort();
  return 0;
}
