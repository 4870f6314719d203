#include "checkpoint/convert.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace trireme {
namespace {

constexpr DType kFloats[] = {DType::F64, DType::F32, DType::F16, DType::BF16};

template <typename To, typename From>
std::vector<To> convert(const std::vector<From>& values, DType from, DType to) {
  std::vector<To> out(values.size());
  copy_converted(reinterpret_cast<const std::byte*>(values.data()), from,
                 reinterpret_cast<std::byte*>(out.data()), to, static_cast<int64_t>(values.size()));
  return out;
}

TEST(Convert, EveryHalfHasItsValueAndComesBack) {
  std::vector<uint16_t> halves;
  for (int bits = 0; bits < 0x10000; ++bits) halves.push_back(static_cast<uint16_t>(bits));
  const auto floats = convert<float>(halves, DType::F16, DType::F32);
  for (uint16_t half : halves) {
    const int exponent = half >> 10 & 0x1f;
    const double mantissa = half & 0x3ff;
    double value =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024.0 + mantissa, exponent - 25);
    if (exponent == 31) value = mantissa == 0 ? HUGE_VAL : std::nan("");
    if ((half & 0x8000) != 0) value = -value;
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(floats[half]));
    } else {
      EXPECT_EQ(floats[half], value);
      EXPECT_EQ(std::signbit(floats[half]), std::signbit(value));
    }
  }
  const auto back = convert<uint16_t>(floats, DType::F32, DType::F16);
  for (uint16_t half : halves) {
    if (std::isnan(floats[half])) {
      EXPECT_GT(back[half] & 0x7fff, 0x7c00);
    } else {
      EXPECT_EQ(back[half], half);
    }
  }
}

// Between two neighbouring halves the nearer one is taken, and half-way the even one.
TEST(Convert, HalvesRoundToNearestEven) {
  for (uint32_t half = 0; half < 0x7c00; ++half) {
    const auto pair = convert<float>(
        std::vector<uint16_t>{static_cast<uint16_t>(half), static_cast<uint16_t>(half + 1)},
        DType::F16, DType::F32);
    const float upper = half + 1 == 0x7c00 ? 65536.0f : pair[1];  // where the next half would be
    const float middle = (pair[0] + upper) / 2.0f;
    const float below = std::nextafter(middle, 0.0f);
    const float above = std::nextafter(middle, HUGE_VALF);
    const auto rounded = convert<uint16_t>(std::vector<float>{below, middle, above, -middle},
                                           DType::F32, DType::F16);
    EXPECT_EQ(rounded[0], half);
    EXPECT_EQ(rounded[1], half + (half & 1));
    EXPECT_EQ(rounded[2], half + 1);
    EXPECT_EQ(rounded[3], 0x8000 + half + (half & 1));
  }
}

TEST(Convert, WideningAndNarrowingBackIsTheIdentity) {
  std::mt19937 random(7);
  std::vector<bf16> values;
  for (int i = 0; i < 5000; ++i) {
    values.emplace_back(std::ldexp(float(int(random() % 2001) - 1000), int(random() % 60) - 30));
  }
  for (DType wide : {DType::F32, DType::F64}) {
    const auto widened = convert<double>(values, DType::BF16, wide);  // large enough for either
    const auto back = convert<bf16>(widened, wide, DType::BF16);
    EXPECT_EQ(back, values);
  }
}

TEST(Convert, TheFirstNumberThatIsNotFiniteIsFoundInEveryDtypeAndTheRestCopied) {
  constexpr int64_t kCount = 5000;
  for (DType from : kFloats) {
    for (DType to : kFloats) {
      for (int64_t at : {int64_t{-1}, int64_t{0}, int64_t{2047}, int64_t{2048}, kCount - 1}) {
        for (double bad : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
          std::vector<double> values(kCount, 1.5), source(kCount), out(kCount);
          if (at >= 0) values[at] = values[kCount - 1] = bad;
          const auto bytes = [](auto& v) { return reinterpret_cast<std::byte*>(v.data()); };
          copy_converted(bytes(values), DType::F64, bytes(source), from, kCount);
          EXPECT_EQ(copy_converted(bytes(source), from, bytes(out), to, kCount), at);
          copy_converted(bytes(out), to, bytes(source), DType::F64, kCount);
          EXPECT_EQ(std::memcmp(&source[1], &values[1], 8 * (at == 0 ? kCount - 2 : 1)), 0);
        }
      }
    }
  }
}

TEST(Convert, WhatOverflowsTheNarrowerDtypeIsNotFinite) {
  const std::vector<float> values = {1.0f, 65519.0f, 65520.0f, 3.4e38f};
  std::vector<uint16_t> out(4);
  const auto* source = reinterpret_cast<const std::byte*>(values.data());
  auto* target = reinterpret_cast<std::byte*>(out.data());
  EXPECT_EQ(copy_converted(source, DType::F32, target, DType::F16, 4), 2);
  EXPECT_EQ(copy_converted(source, DType::F32, target, DType::BF16, 4), 3);
}

TEST(Convert, IntegersConvertToNothingElse) {
  constexpr DType kAll[] = {DType::F32, DType::BF16, DType::F16, DType::F64, DType::I64,
                            DType::I32, DType::U32,  DType::U16, DType::U8};
  const auto is_float = [](DType dtype) {
    return std::find(std::begin(kFloats), std::end(kFloats), dtype) != std::end(kFloats);
  };
  for (DType from : kAll) {
    for (DType to : kAll) {
      EXPECT_EQ(is_convertible(from, to), from == to || (is_float(from) && is_float(to)));
    }
  }
}

// Elements after the first NaN are copied too, in memory that does not grow with the tensor.
TEST(Convert, LongTensorsOfNaNsAreCopiedWhole) {
  const std::vector<bf16> values(size_t{1} << 22, bf16(std::nanf("")));
  std::vector<float> out(values.size());
  EXPECT_EQ(copy_converted(reinterpret_cast<const std::byte*>(values.data()), DType::BF16,
                           reinterpret_cast<std::byte*>(out.data()), DType::F32,
                           static_cast<int64_t>(values.size())),
            0);
  EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](float x) { return std::isnan(x); }));
}

}  // namespace
}  // namespace trireme
