#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "checkpoint/safetensors.h"

namespace {

// A fuzzer rarely guesses the eight bytes of the length, so half of the inputs get a correct
// length.
void repair(std::vector<std::byte>& bytes) {
  if (bytes.size() < 8) return;
  for (size_t end = bytes.size(); end > 8; --end) {
    if (bytes[end - 1] != std::byte{'}'}) continue;
    const uint64_t length = end - 8;
    std::memcpy(bytes.data(), &length, sizeof length);
    return;
  }
}

}  // namespace

// A safetensors file: it is refused, or its tensors follow each other and fill the file.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(begin + 1, begin + size);
  if (data[0] % 2 == 0) repair(bytes);

  const auto header = trireme::parse_safetensors_header(bytes, static_cast<int64_t>(bytes.size()));
  if (!header.ok()) {
    if (header.error().message.empty()) std::abort();
    return 0;
  }
  int64_t end = 0;
  for (const trireme::SafetensorsEntry& tensor : header->tensors) {
    if (tensor.begin != end || tensor.end < tensor.begin) std::abort();
    if (header->find(tensor.name) != &tensor) std::abort();
    end = tensor.end;
    if (!tensor.dtype) continue;
    int64_t expected = trireme::size_of(*tensor.dtype);
    for (int64_t extent : tensor.extents) expected *= extent;
    if (expected != tensor.end - tensor.begin) std::abort();
  }
  if (header->data_offset + end != static_cast<int64_t>(bytes.size())) std::abort();
  return 0;
}
