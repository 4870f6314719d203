#include "train/noise_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace trireme {
namespace {

// Gradients of tokens with a known mean and a known, uneven covariance.
class DrawnGradients {
 public:
  static constexpr int kParams = 16;
  static constexpr double kMean = 0.2;

  static double squared_grad() { return kParams * kMean * kMean; }
  static double trace() {
    double sum = 0.0;
    for (int i = 0; i < kParams; ++i) sum += deviation(i) * deviation(i);
    return sum;
  }
  // Norms of the means over the first `small` of `large` tokens, and over all.
  std::pair<GradNorm, GradNorm> draw(int small, int large) {
    double of_small = 0.0, of_large = 0.0;
    for (int i = 0; i < kParams; ++i) {
      double sum = 0.0;
      for (int token = 0; token < large; ++token) {
        sum += kMean + deviation(i) * normal_(random_);
        if (token + 1 == small) of_small += sum * sum / (small * small);
      }
      of_large += sum * sum / (large * large);
    }
    return {{std::sqrt(of_small), small}, {std::sqrt(of_large), large}};
  }

 private:
  static double deviation(int param) { return 0.5 + 0.1 * param; }
  std::mt19937_64 random_{7};
  std::normal_distribution<double> normal_;
};

// Means of many estimates are the true values within four standard errors.
TEST(NoiseScale, EstimatesFromTwoBatchSizesAreUnbiased) {
  constexpr int kDraws = 4000;
  for (const auto& [small, large] : {std::pair{2, 8}, {1, 3}, {6, 8}}) {
    DrawnGradients gradients;
    std::vector<double> squares, traces;
    for (int draw = 0; draw < kDraws; ++draw) {
      const auto [of_small, of_large] = gradients.draw(small, large);
      const NoiseSample sample = noise_sample(of_small, of_large);
      squares.push_back(sample.squared_grad);
      traces.push_back(sample.trace);
    }
    const auto expect_mean = [&](const std::vector<double>& samples, double truth) {
      double sum = 0.0, sum_of_squares = 0.0;
      for (const double sample : samples) {
        sum += sample;
        sum_of_squares += sample * sample;
      }
      const double mean = sum / kDraws;
      const double deviation = std::sqrt(sum_of_squares / kDraws - mean * mean);
      EXPECT_NEAR(mean, truth, 4.0 * deviation / std::sqrt(kDraws)) << small << " of " << large;
    };
    expect_mean(squares, DrawnGradients::squared_grad());
    expect_mean(traces, DrawnGradients::trace());
  }
}

TEST(NoiseScale, IsTheQuotientOfTheAveragesHoweverManyThereAre) {
  NoiseScale scale;
  EXPECT_FALSE(scale.tokens());
  for (int measurement = 0; measurement < 3; ++measurement) {
    // |G|^2 = 4 and tr(Sigma) = 60.
    scale.add({std::sqrt(4.0 + 60.0 / 2.0), 2}, {std::sqrt(4.0 + 60.0 / 8.0), 8});
    ASSERT_TRUE(scale.tokens());
    EXPECT_NEAR(*scale.tokens(), 15.0, 1e-12);
  }
}

TEST(NoiseScale, LeavesOutWhatTellsNothing) {
  NoiseScale scale;
  scale.add({NAN, 2}, {1.0, 8});
  scale.add({1.0, 2}, {INFINITY, 8});
  scale.add({1.0, 8}, {1.0, 8});
  scale.add({0.0, 0}, {1.0, 8});
  EXPECT_FALSE(scale.tokens());
  scale.add({4.0, 2}, {1.0, 8});  // of pure noise: |g|^2 falls as fast as the batch grows
  EXPECT_FALSE(scale.tokens());
}

}  // namespace
}  // namespace trireme
