#include "layout_laws.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace trireme {

void expect_the_bits_of_one_rank(const Case& c) {
  SCOPED_TRACE(c.name());
  const LayoutRun run = run_case(c);
  EXPECT_EQ(difference(run, reference_of(c)), "");
  EXPECT_EQ(run.differences, "");
}

void expect_near(const LayoutRun& split, const LayoutRun& whole) {
  for (size_t step = 0; step < whole.losses.size(); ++step) {
    EXPECT_NEAR(split.losses[step], whole.losses[step], 2e-5 * whole.losses[step]);
    EXPECT_NEAR(split.grad_norms[step], whole.grad_norms[step], 1e-4 * whole.grad_norms[step]);
  }
  double squared_norm = 0.0;
  for (const auto& [name, moment] : whole.first_moments) {
    for (const float value : moment) squared_norm += double(value) * value;
  }
  for (const auto& [name, moment] : whole.first_moments) {
    double squared_difference = 0.0, squared = 0.0;
    for (size_t i = 0; i < moment.size(); ++i) {
      const double difference = double(split.first_moments.at(name)[i]) - moment[i];
      squared_difference += difference * difference;
      squared += double(moment[i]) * moment[i];
    }
    const double scale = std::max(std::sqrt(squared), 1e-3 * std::sqrt(squared_norm));
    EXPECT_LE(std::sqrt(squared_difference), 2e-5 * scale) << name;
  }
}

}  // namespace trireme
