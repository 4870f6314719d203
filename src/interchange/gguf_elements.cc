#include "interchange/gguf_elements.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "checkpoint/convert.h"

namespace trireme {
namespace {

DType dtype_of_ggml(GgmlType type) {
  return type == GgmlType::F16 ? DType::F16 : type == GgmlType::BF16 ? DType::BF16 : DType::F32;
}

const std::byte* bytes_of(const float* value) { return reinterpret_cast<const std::byte*>(value); }
std::byte* bytes_of(float* value) { return reinterpret_cast<std::byte*>(value); }

// Encodes a block of Q8_0: the step in F16, then 32 signed bytes. The step is the largest magnitude
// divided by 127. Elements are rounded with the step before it is rounded to F16.
int64_t encode_block(const float* elements, std::byte* block) {
  float greatest = 0.0f;
  for (int64_t i = 0; i < kQ8Block; ++i) greatest = std::max(greatest, std::abs(elements[i]));
  const float step = greatest / 127.0f;
  const float inverse = step < std::numeric_limits<float>::min() ? 0.0f : 1.0f / step;
  if (copy_converted(bytes_of(&step), DType::F32, block, DType::F16, 1) >= 0) return 0;
  for (int64_t i = 0; i < kQ8Block; ++i) {
    const auto number = static_cast<int8_t>(std::round(elements[i] * inverse));
    std::memcpy(block + 2 + i, &number, 1);
  }
  return -1;
}

}  // namespace

int64_t encode_ggml(GgmlType type, std::span<const float> elements, std::vector<std::byte>& bytes) {
  const auto count = static_cast<int64_t>(elements.size());
  bytes.resize(static_cast<size_t>(ggml_bytes(type, count)));
  if (type != GgmlType::Q8_0) {
    return copy_converted(bytes_of(elements.data()), DType::F32, bytes.data(), dtype_of_ggml(type),
                          count);
  }
  for (int64_t begin = 0; begin < count; begin += kQ8Block) {
    std::byte* block = bytes.data() + ggml_bytes(type, begin);
    if (encode_block(elements.data() + begin, block) >= 0) return begin;
  }
  return -1;
}

int64_t decode_ggml(GgmlType type, std::span<const std::byte> bytes, std::span<float> elements) {
  const auto count = static_cast<int64_t>(elements.size());
  if (type != GgmlType::Q8_0) {
    return copy_converted(bytes.data(), dtype_of_ggml(type), bytes_of(elements.data()), DType::F32,
                          count);
  }
  for (int64_t begin = 0; begin < count; begin += kQ8Block) {
    const std::byte* block = bytes.data() + ggml_bytes(type, begin);
    float step = 0.0f;
    if (copy_converted(block, DType::F16, bytes_of(&step), DType::F32, 1) >= 0) return begin;
    for (int64_t i = 0; i < kQ8Block; ++i) {
      elements[begin + i] = step * static_cast<float>(static_cast<int8_t>(block[2 + i]));
    }
  }
  return -1;
}

}  // namespace trireme
