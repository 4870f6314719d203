#include "kernels/fp32_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/scalar_lane.h"

// Tests the functions on single floats. The tests of the kernels show that vectors give the same
// bits.
namespace trireme {
namespace {

using scalar::F32;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Returns |got - want| in units in the last place of want.
double ulps(float got, double want) {
  const float near = std::abs(float(want));
  return std::abs(got - want) / (std::nextafterf(near, kInf) - double(near));
}

template <typename Body>
void for_many_floats(Body&& body) {  // covers all exponents and signs
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 40'009) {
    const float x = std::bit_cast<float>(uint32_t(bits));
    if (std::isfinite(x)) body(x);
  }
}

TEST(Fp32Math, ExponentialWithinItsBound) {
  for_many_floats([](float x) {
    const float got = exp_f32(F32{x}).v;
    if (x > 88.72f || x < -103.9f) {
      EXPECT_EQ(got, x > 0 ? kInf : 0.0f) << x;
    } else {
      const double want = std::exp(double(x)), least = std::numeric_limits<float>::denorm_min();
      EXPECT_NEAR(got, want, want * (2e-7 + std::abs(x) * 3e-9) + least / 2) << x;
    }
  });
  EXPECT_EQ(exp_f32(F32{0.0f}).v, 1.0f);
  EXPECT_EQ(exp_f32(F32{-kInf}).v, 0.0f);
  EXPECT_TRUE(std::isnan(exp_f32(F32{kNan}).v));
}

TEST(Fp32Math, LogarithmOfNormalNumbersWithinAUnit) {
  for_many_floats([](float x) {
    if (x >= std::numeric_limits<float>::min()) {
      EXPECT_LE(ulps(log_f32(F32{x}).v, std::log(double(x))), 1.0) << x;
    }
  });
  EXPECT_EQ(log_f32(F32{1.0f}).v, 0.0f);
}

TEST(Fp32Math, SigmoidAndNormalDistributionKeepTheirLowerTails) {
  for_many_floats([](float x) {
    if (std::abs(x) > 12.0f) return;
    const double sigmoid = 1.0 / (1.0 + std::exp(-double(x)));
    EXPECT_NEAR(sigmoid_f32(F32{x}).v / sigmoid, 1.0, 4e-7) << x;
    const double cdf = 0.5 * std::erfc(-x / std::sqrt(2.0));
    EXPECT_NEAR(normal_cdf_f32(F32{x}).v / cdf, 1.0, x < -9.0f ? 1e-5 : 3e-6) << x;
  });
}

TEST(Fp32Math, SineAndCosineOfTurns) {
  for (int step = 0; step < (1 << 16); ++step) {
    const float turns = float(step) / 65536.0f;
    F32 sin, cos;
    sin_cos_of_turns(F32{turns}, sin, cos);
    EXPECT_NEAR(sin.v, std::sin(2.0 * M_PI * turns), 1e-7) << turns;
    EXPECT_NEAR(cos.v, std::cos(2.0 * M_PI * turns), 1e-7) << turns;
  }
}

}  // namespace
}  // namespace trireme
