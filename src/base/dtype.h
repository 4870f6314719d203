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

// Returns "fp32", "bf16", ..., as in configurations, tables and reports.
std::string_view name_of(DType dtype);

// The upper half of an fp32: 8 exponent bits and 7 stored mantissa bits.
struct bf16 {
  uint16_t bits = 0;

  bf16() = default;
  // Rounds to nearest even. A NaN becomes a quiet NaN.
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

// 1 sign, 5 exponent and 10 stored mantissa bits; finite up to 65504.
struct f16 {
  uint16_t bits = 0;

  f16() = default;
  // Rounds to nearest even; values from 65520 on become infinity. A NaN becomes quiet and keeps the
  // bits that fit.
  explicit f16(float value);
  explicit operator float() const;
  friend bool operator==(f16 a, f16 b) { return float(a) == float(b); }
};
static_assert(sizeof(f16) == 2);

inline f16::f16(float value) {
  const uint32_t u = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = u & 0x7fffffffu;
  uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | (magnitude >> 13 & 0x3ffu);
  } else if (magnitude >= 0x477ff000u) {
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: the sum rounds to multiples of 2^-24
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    half = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  }
  bits = static_cast<uint16_t>((u >> 16 & 0x8000u) | half);
}

inline f16::operator float() const {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {  // infinity, NaN
    return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  }
  if (magnitude < 0x400u) {  // zero, subnormal: magnitude * 2^-24
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
}

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
struct DTypeOf<f16> {
  static constexpr DType value = DType::F16;
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
