#include <gtest/gtest.h>

#include <cmath>

#include "base/dtype.h"
#include "base/nearest_name.h"
#include "base/philox.h"
#include "base/units.h"
#include "base/view.h"

namespace trireme {
namespace {

// Known-answer vectors published with Random123.
TEST(Philox, MatchesThePublishedVectors) {
  EXPECT_EQ(philox({0}, {0, 0, 0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffffu;
  EXPECT_EQ(philox({~0ull}, {ones, ones, ones, ones}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Bf16, RoundsToNearestEvenForEveryUpperHalf) {
  for (uint32_t upper = 0; upper < 0x10000u; ++upper) {
    const float exact = std::bit_cast<float>(upper << 16);
    if (std::isnan(exact)) continue;
    EXPECT_EQ(bf16(exact).bits, upper);
    const float below_half = std::bit_cast<float>((upper << 16) | 0x7fffu);
    const float half = std::bit_cast<float>((upper << 16) | 0x8000u);
    if (std::isnan(half) || std::isinf(exact)) continue;
    EXPECT_EQ(bf16(below_half).bits, upper);
    EXPECT_EQ(bf16(half).bits, upper + (upper & 1));
  }
}

TEST(NearestName, FindsTheMeantNameAndNothingFarAway) {
  const std::vector<std::string> keys = {"layers", "d_model", "heads", "kv_heads"};
  EXPECT_EQ(nearest_name("layer", keys), "layers");
  EXPECT_EQ(nearest_name("dmodel", keys), "d_model");
  EXPECT_EQ(nearest_name("completely_else", keys), "");
}

TEST(NearestName, ShortWordsThatMeanSomethingElseHaveNone) {
  EXPECT_EQ(nearest_name("yes", {"fixed", "layout", "mesh"}), "");
  EXPECT_EQ(nearest_name("gpu", {"local", "mpi"}), "");
  EXPECT_EQ(nearest_name("fp8", {"fp32", "bf16", "fp16"}), "");
  EXPECT_EQ(nearest_name("nvme", {"none", "optimizer", "all"}), "");
  EXPECT_EQ(nearest_name("4", {"0", "1", "2", "3"}), "");
  EXPECT_EQ(nearest_name("", {"0"}), "");
  EXPECT_EQ(nearest_name("avx", {"auto", "avx2", "avx512"}), "avx2");
  EXPECT_EQ(nearest_name("og", {"stop", "go"}), "go");
}

TEST(View, AddressesRowMajor) {
  float data[6] = {0, 1, 2, 3, 4, 5};
  View<float, 2> x(data, {2, 3});
  View<const float, 2> read_only = x;
  EXPECT_EQ(read_only(1, 2), 5.0f);
}

TEST(Units, ReadLikeAPersonWouldWriteThem) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(3 << 20), "3.0 MiB");
  EXPECT_EQ(format_duration(272), "4m 32s");
  EXPECT_EQ(format_count(124439808), "124.4M");
  EXPECT_EQ(format_fixed(3.14159, 4), "3.1416");
}

TEST(Units, WhatIsNotFiniteHasOneSpelling) {
  const double nan = std::nan("");
  for (const double value : {nan, -nan}) EXPECT_EQ(format_fixed(value, 2), "nan");
  EXPECT_EQ(format_fixed(HUGE_VAL, 2), "inf");
  EXPECT_EQ(format_fixed(-HUGE_VAL, 2), "-inf");
}

// Every fp16 converts to fp32 and back. Between two neighbours the nearer one is taken, half-way
// the even one.
TEST(F16, RoundsToNearestEvenForEveryPattern) {
  for (uint32_t pattern = 0; pattern < 0x7c00u; ++pattern) {
    f16 here, next;
    here.bits = static_cast<uint16_t>(pattern);
    next.bits = static_cast<uint16_t>(pattern + 1);
    const float low = float(here);
    ASSERT_EQ(f16(low).bits, pattern);
    ASSERT_EQ(f16(-low).bits, pattern | 0x8000u);
    // The gap after the largest number is as wide as the one before it.
    const float high = pattern == 0x7bffu ? 65536.0f : float(next);
    ASSERT_LT(low, high);
    const float half = low + (high - low) / 2.0f;  // exact in fp32
    ASSERT_EQ(f16(half).bits, pattern + (pattern & 1u));
    ASSERT_EQ(f16(std::nextafter(half, 0.0f)).bits, pattern);
    ASSERT_EQ(f16(std::nextafter(half, 1e9f)).bits, pattern + 1);
  }
  EXPECT_EQ(f16(INFINITY).bits, 0x7c00u);
  EXPECT_TRUE(std::isnan(float(f16(NAN))));
}

}  // namespace
}  // namespace trireme
