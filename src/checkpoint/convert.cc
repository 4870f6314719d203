#include "checkpoint/convert.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace trireme {
namespace {

template <typename T>
T load(const std::byte* source, int64_t index) {
  T value;
  std::memcpy(&value, source + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// A float with the bits `Bits` is not finite if all bits of `exponent` are set.
template <typename Bits>
int64_t first_nonfinite(const std::byte* values, int64_t num_elements, Bits exponent) {
  bool any = false;  // no early exit, so that the loop can be vectorised
  for (int64_t i = 0; i < num_elements; ++i) any |= (load<Bits>(values, i) & exponent) == exponent;
  if (!any) return -1;
  int64_t index = 0;
  while ((load<Bits>(values, index) & exponent) != exponent) ++index;
  return index;
}

int64_t first_nonfinite(const std::byte* values, DType dtype, int64_t num_elements) {
  switch (dtype) {
    case DType::F64:
      return first_nonfinite<uint64_t>(values, num_elements, 0x7ffull << 52);
    case DType::F32:
      return first_nonfinite<uint32_t>(values, num_elements, 0x7f800000u);
    case DType::F16:
      return first_nonfinite<uint16_t>(values, num_elements, 0x7c00u);
    case DType::BF16:
      return first_nonfinite<uint16_t>(values, num_elements, 0x7f80u);
    default:
      return -1;
  }
}

void widen_block(const std::byte* source, DType from, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    switch (from) {
      case DType::F64:
        out[i] = static_cast<float>(load<double>(source, i));
        break;
      case DType::F16:
        out[i] = static_cast<float>(load<f16>(source, i));
        break;
      case DType::BF16:
        out[i] = static_cast<float>(load<bf16>(source, i));
        break;
      default:
        out[i] = load<float>(source, i);
    }
  }
}

template <typename T>
void store(std::byte* out, int64_t index, T value) {
  std::memcpy(out + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

void narrow_block(const float* source, std::byte* out, DType to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    switch (to) {
      case DType::F64:
        store(out, i, static_cast<double>(source[i]));
        break;
      case DType::F16:
        store(out, i, f16(source[i]));
        break;
      case DType::BF16:
        store(out, i, bf16(source[i]));
        break;
      default:
        store(out, i, source[i]);
    }
  }
}

bool is_float(DType dtype) {
  return dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16 || dtype == DType::F64;
}

}  // namespace

bool is_convertible(DType from, DType to) { return from == to || (is_float(from) && is_float(to)); }

int64_t copy_converted(const std::byte* source, DType from, std::byte* out, DType to,
                       int64_t num_elements) {
  TRIREME_CHECK(is_convertible(from, to), "no conversion between these dtypes");
  constexpr int64_t kBlock = 2048;  // fits the L1 cache between the passes
  float widened[kBlock];
  int64_t first = -1;
  for (int64_t begin = 0; begin < num_elements; begin += kBlock) {
    const int64_t n = std::min(kBlock, num_elements - begin);
    const std::byte* block = source + begin * size_of(from);
    std::byte* block_out = out + begin * size_of(to);
    if (from == to) {
      std::memcpy(block_out, block, static_cast<size_t>(n * size_of(to)));
    } else {
      widen_block(block, from, widened, n);
      narrow_block(widened, block_out, to, n);
    }
    // After the first such number the rest is still copied, because a caller that allows such
    // numbers needs all elements.
    if (first >= 0) continue;
    const int64_t found = first_nonfinite(block_out, to, n);
    if (found >= 0) first = begin + found;
  }
  return first;
}

}  // namespace trireme
