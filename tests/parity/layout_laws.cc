#include "layout_laws.h"

#include <fmt/format.h>
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

namespace {

double norm_of(const std::vector<float>& x) {
  double squared = 0.0;
  for (const float value : x) squared += double(value) * value;
  return std::sqrt(squared);
}

// Also true if one of them is not a number.
bool is_far(double value, double from, double bound) { return !(std::abs(value - from) <= bound); }

}  // namespace

std::string beyond_bounds(const LayoutRun& split, const LayoutRun& whole) {
  for (size_t step = 0; step < whole.losses.size(); ++step) {
    const double loss = whole.losses[step];
    // Both begin with the same weights, so the first loss has a closer bound.
    if (is_far(split.losses[step], loss, (step == 0 ? 1e-6 : 2e-5) * loss)) {
      return fmt::format("step {}: loss {} for {}", step, split.losses[step], loss);
    }
  }
  for (size_t step = 0; step < whole.ahead_losses.size(); ++step) {
    const double loss = whole.ahead_losses[step];
    if (is_far(split.ahead_losses[step], loss, (step == 0 ? 1e-6 : 2e-5) * loss)) {
      return fmt::format("step {}: loss of modules {} for {}", step, split.ahead_losses[step],
                         loss);
    }
  }
  // Router losses are compared if all tokens went to the same experts.
  const size_t routers = split.expert_loads == whole.expert_loads ? whole.router_losses.size() : 0;
  for (size_t i = 0; i < routers; ++i) {
    const double value = double(whole.router_losses[i]);
    if (is_far(double(split.router_losses[i]), value, 2e-5 * value)) {
      return fmt::format("router's loss {}: {} for {}", i, split.router_losses[i], value);
    }
  }
  // Compares only the first step: AdamW's first updates are signs, even of gradients that are
  // nearly 0.
  const double norm = whole.grad_norms.front();
  if (is_far(split.grad_norms.front(), norm, 2e-5 * norm)) {
    return fmt::format("gradient norm {} for {}", split.grad_norms.front(), norm);
  }
  double squared_norm = 0.0;
  for (const auto& [name, moment] : whole.first_moments) {
    squared_norm += std::pow(norm_of(moment), 2.0);
  }
  for (const auto& [name, moment] : whole.first_moments) {
    std::vector<float> difference = split.first_moments.at(name);
    for (size_t i = 0; i < moment.size(); ++i) difference[i] -= moment[i];
    const double scale = std::max(norm_of(moment), 1e-3 * std::sqrt(squared_norm));
    if (is_far(norm_of(difference), 0.0, 2e-5 * scale)) {
      return fmt::format("gradient of {}: off by {} of {}", name, norm_of(difference), scale);
    }
  }
  return "";
}

void expect_near(const LayoutRun& split, const LayoutRun& whole) {
  EXPECT_EQ(beyond_bounds(split, whole), "");
}

}  // namespace trireme
