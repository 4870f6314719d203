#include "predict/disturbances.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme {
namespace {

TEST(Jitter, HasTheMeanOneAndItsSigma) {
  const Jitter jitter{.sigma = 0.3, .seed = 11};
  double sum = 0.0, squares = 0.0;
  const int num_ranks = 200, num_actions = 500, n = num_ranks * num_actions;
  for (int rank = 0; rank < num_ranks; ++rank) {
    for (int action = 0; action < num_actions; ++action) {
      const double factor = jitter_factor(jitter, rank, size_t(action));
      sum += factor;
      squares += std::log(factor) * std::log(factor);
    }
  }
  EXPECT_NEAR(sum / n, 1.0, 0.005);  // five deviations of the mean
  EXPECT_NEAR(std::sqrt(squares / n - 0.25 * std::pow(0.3, 4)), 0.3, 0.004);
}

}  // namespace
}  // namespace trireme
