#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/elementwise_cases.h"
#include "kernels/kernel_table.h"
#include "kernels/own_stream.h"

namespace trireme {
namespace {

constexpr RngKey kKey = {0xfeedfacecafebeefu};

std::vector<float> filled(const KernelTable& kernels, Stream& stream, int64_t first, int64_t n,
                          float stddev = 0.02f) {
  std::vector<float> x(size_t(n) + 1, -77.0f);
  kernels.fill_normal(stream, {kKey, stddev, first, {x.data(), DType::F32, Shape{n}}});
  EXPECT_EQ(x.back(), -77.0f);
  x.pop_back();
  return x;
}

TEST(FillNormal, SameBitsAsTheReferenceEverywhere) {
  OwnStream one(1), four(4);
  for (int64_t first : {int64_t{0}, int64_t{1}, int64_t{6}, (int64_t{1} << 34) - 31}) {
    for (int64_t n : kElementCounts) {
      const std::vector<float> want = filled(reference_kernels(), one, first, n);
      for (Isa isa : supported_isas()) {
        EXPECT_EQ(filled(cpu_kernels(isa), one, first, n), want) << first << " + " << n;
        EXPECT_EQ(filled(cpu_kernels(isa), four, first, n), want) << first << " + " << n;
      }
    }
  }
}

TEST(FillNormal, AnElementDependsOnItsIndexAlone) {
  OwnStream one(1);
  const std::vector<float> whole = filled(reference_kernels(), one, 0, 300);
  for (Isa isa : supported_isas()) {
    for (int64_t first = 0; first < 300; first += 13) {
      const std::vector<float> part = filled(cpu_kernels(isa), one, first, 300 - first);
      for (int64_t i = first; i < 300; ++i) ASSERT_EQ(part[i - first], whole[i]);
    }
  }
}

// Compares with Box-Muller in double on the same 24 bits.
TEST(FillNormal, FollowsTheDefinition) {
  OwnStream one(1);
  const std::vector<float> x = filled(cpu_kernels(supported_isas().back()), one, 0, 40'000, 1.0f);
  for (int64_t i = 0; i < 40'000; ++i) {
    const PhiloxCounter words = philox(kKey, counter_of(0, i / 4));
    const int pair = i % 4 / 2;
    const double u = ((words[2 * pair] >> 8) + 1.0) / 16777216.0;
    const double angle = 2.0 * std::numbers::pi * uniform_float(words[2 * pair + 1]);
    const double radius = std::sqrt(-2.0 * std::log(u));
    ASSERT_NEAR(x[i], radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle)), 1e-6);
  }
}

TEST(FillNormal, HasTheMomentsOfANormalDistribution) {
  OwnStream one(1);
  const int64_t n = 1'000'000;
  const std::vector<float> x = filled(cpu_kernels(supported_isas().back()), one, 0, n, 3.0f);
  double moment[5] = {};
  int64_t beyond_two = 0;
  for (float value : x) {
    const double z = value / 3.0;
    for (int k = 1; k <= 4; ++k) moment[k] += std::pow(z, k) / double(n);
    beyond_two += std::abs(z) > 2.0;
  }
  EXPECT_NEAR(moment[1], 0.0, 0.005);  // within five standard errors
  EXPECT_NEAR(moment[2], 1.0, 0.0075);
  EXPECT_NEAR(moment[3], 0.0, 0.02);
  EXPECT_NEAR(moment[4], 3.0, 0.05);
  EXPECT_NEAR(double(beyond_two) / double(n), 0.0455, 0.0011);
}

}  // namespace
}  // namespace trireme
