#include "predict/disturbances.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace trireme {
namespace {

TEST(Jitter, HasTheMeanOneAndItsSigma) {
  const Jitter jitter{.sigma = 0.3, .seed = 11};
  double sum = 0.0, squares = 0.0;
  const int num_ranks = 200, num_actions = 500, n = num_ranks * num_actions;
  std::vector<double> factors(num_actions);
  for (int rank = 0; rank < num_ranks; ++rank) {
    fill_jitter(jitter, rank, factors);
    for (const double factor : factors) {
      sum += factor;
      squares += std::log(factor) * std::log(factor);
    }
  }
  EXPECT_NEAR(sum / n, 1.0, 0.005);  // five deviations of the mean
  EXPECT_NEAR(std::sqrt(squares / n - 0.25 * std::pow(0.3, 4)), 0.3, 0.004);
}

// However many actions are asked for, each keeps its factor; ranks and seeds have others.
TEST(Jitter, DependsOnSeedRankAndActionAlone) {
  const auto filled = [](uint64_t seed, int rank, size_t count) {
    std::vector<double> factors(count);
    fill_jitter({.sigma = 0.1, .seed = seed}, rank, factors);
    return factors;
  };
  const std::vector<double> whole = filled(1, 2, 64);
  for (size_t count = 0; count < whole.size(); ++count) {
    EXPECT_EQ(filled(1, 2, count),
              std::vector<double>(whole.begin(), whole.begin() + int64_t(count)));
  }
  EXPECT_EQ(std::set<double>(whole.begin(), whole.end()).size(), whole.size());
  EXPECT_NE(filled(1, 3, 64), whole);
  EXPECT_NE(filled(2, 2, 64), whole);
}

}  // namespace
}  // namespace trireme
