#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace trireme {

enum class DType : uint8_t { F32, BF16, F16, F64, I64, I32, U32, U16, U8 };

constexpr int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::F64:
    case DType::I64:
      return 8;
    case DType::F32:
    case DType::I32:
    case DType::U32:
      return 4;
    case DType::BF16:
    case DType::F16:
    case DType::U16:
      return 2;
    case DType::U8:
      return 1;
  }
  return 0;
}

// "fp32", "bf16", ...: the spelling of configurations, tables and reports.
std::string_view name_of(DType dtype);

// The upper half of an fp32: 8 exponent bits, 7 stored mantissa bits.
struct bf16 {
  uint16_t bits = 0;

  bf16() = default;
  // Rounds to nearest even; a NaN stays a (quiet) NaN.
  explicit bf16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<uint16_t>((u >> 16) | 0x40u);
    } else {
      bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  explicit operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
  friend bool operator==(bf16 a, bf16 b) { return float(a) == float(b); }
};
static_assert(sizeof(bf16) == 2);

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::F32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::F64;
};
template <>
struct DTypeOf<bf16> {
  static constexpr DType value = DType::BF16;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::I64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::I32;
};
template <>
struct DTypeOf<uint32_t> {
  static constexpr DType value = DType::U32;
};
template <>
struct DTypeOf<uint16_t> {
  static constexpr DType value = DType::U16;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::U8;
};
template <typename T>
struct DTypeOf<const T> : DTypeOf<T> {};
template <typename T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

}  // namespace trireme
