#include "sweep/lr_range.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/philox.h"
#include "optim/lr_schedule.h"
#include "sweep/trial_verdict.h"

namespace trireme {
namespace {

constexpr int64_t kRangeSteps = 400;
constexpr double kFallsAt = 1e-4;  // where the loss falls fastest
constexpr double kBlowsUpAt = 0.03;

OptimConfig range_of(double from, double to) {
  OptimConfig optim;
  optim.schedule = LrScheduleKind::Range;
  optim.min_lr = from;
  optim.lr = to;
  return optim;
}

// A loss of 6 that falls by 3 around kFallsAt, and rises by itself once per factor of e behind
// kBlowsUpAt. `noise` is the width of a uniform error.
double range_loss(double lr, double noise, int64_t step) {
  const double fallen = 3.0 / (1.0 + std::exp(-2.0 * std::log(lr / kFallsAt)));
  const double risen = std::exp(3.0 * std::log(lr / kBlowsUpAt));
  const double error = uniform_float(philox({1}, counter_of(uint64_t(step), 0))[0]) - 0.5;
  return 6.0 - fallen + risen + noise * error;
}

TrialCurve range_curve(double from, double to, double noise, int64_t steps = kRangeSteps) {
  const LrSchedule schedule(range_of(from, to), kRangeSteps);
  TrialCurve curve;
  for (int64_t step = 1; step <= steps; ++step) {
    const double lr = schedule.at(step);
    curve.add_step(step, range_loss(lr, noise, step), lr);
  }
  return curve;
}

TEST(LrRange, TheScheduleHasItsEndsExactlyAndOneRatio) {
  for (const auto& [from, to] : {std::pair{1e-6, 1.0}, {3e-5, 0.7}, {1e-3, 1e-3}}) {
    for (const int64_t steps : {1, 2, 10, 333}) {
      const LrSchedule schedule(range_of(from, to), steps);
      EXPECT_EQ(schedule.at(steps), to);
      if (steps == 1) continue;
      EXPECT_EQ(schedule.at(1), from);
      const double ratio = std::pow(to / from, 1.0 / double(steps - 1));
      for (int64_t step = 2; step <= steps; ++step) {
        EXPECT_NEAR(schedule.at(step) / schedule.at(step - 1) / ratio, 1.0, 1e-12);
      }
    }
  }
}

TEST(LrRange, FindsWhereTheLossFallsFastestAndWhereItIsLost) {
  for (const double noise : {0.0, 0.1}) {
    const LrFinding finding = find_lr(range_curve(1e-6, 1.0, noise), kRangeSteps);
    ASSERT_TRUE(finding.steepest_lr && finding.diverged_lr) << noise;
    EXPECT_NEAR(std::log10(*finding.steepest_lr / kFallsAt), 0.0, 0.25) << noise;
    // The gain of 3 is lost by half where risen = 1.5.
    const double lost = kBlowsUpAt * std::pow(1.5, 1.0 / 3.0);
    EXPECT_NEAR(std::log10(*finding.diverged_lr / lost), 0.0, 0.1) << noise;
    EXPECT_EQ(finding.suggested_lr(), std::min(*finding.steepest_lr, *finding.diverged_lr / 10.0));
  }
}

TEST(LrRange, ATestThatEndsTooEarlyHasNotDiverged) {
  const LrFinding finding = find_lr(range_curve(1e-6, 1e-3, 0.1), kRangeSteps);
  EXPECT_FALSE(finding.diverged_lr);
  ASSERT_TRUE(finding.steepest_lr);
  EXPECT_EQ(finding.suggested_lr(), finding.steepest_lr);
}

TEST(LrRange, NoiseAloneIsNoDivergence) {
  TrialCurve flat;
  for (int64_t step = 1; step <= kRangeSteps; ++step) {
    flat.add_step(step, range_loss(1e-9, 0.5, step), 1e-9);
  }
  EXPECT_FALSE(find_lr(flat, kRangeSteps).diverged_lr);
}

TEST(LrRange, ALossThatIsNotFiniteHasDivergedThere) {
  TrialCurve curve = range_curve(1e-6, 1e-3, 0.0, 300);
  curve.add_step(301, std::numeric_limits<double>::infinity(), 0.5);
  const LrFinding finding = find_lr(curve, kRangeSteps);
  EXPECT_EQ(finding.diverged_step, 301);
  EXPECT_EQ(finding.diverged_lr, 0.5);
}

// So a test that was broken off and resumed suggests the same rate.
TEST(LrRange, WhatIsFoundStaysWhenTheCurveBecomesLonger) {
  const TrialRules rules{.total_steps = kRangeSteps, .is_range_test = true};
  for (const double noise : {0.0, 0.1, 1.0}) {
    std::optional<TrialVerdict> first;
    LrFinding found;
    for (int64_t steps = 1; steps <= kRangeSteps; ++steps) {
      const TrialCurve curve = range_curve(1e-6, 1.0, noise, steps);
      const auto verdict = verdict_of(curve, rules);
      if (!first && verdict) {
        first = verdict;
        found = find_lr(curve, kRangeSteps);
      }
      ASSERT_EQ(verdict.has_value(), first.has_value());
      if (!first) continue;
      EXPECT_EQ(verdict->step, first->step);
      const LrFinding now = find_lr(curve, kRangeSteps);
      EXPECT_EQ(now.diverged_lr, found.diverged_lr);
      EXPECT_EQ(now.steepest_lr, found.steepest_lr);
    }
    EXPECT_TRUE(first) << noise;
  }
}

TEST(LrRange, AShortOrEmptyCurveSuggestsNothing) {
  EXPECT_FALSE(find_lr(TrialCurve(), kRangeSteps).suggested_lr());
  EXPECT_FALSE(find_lr(range_curve(1e-6, 1.0, 0.0, 1), 1).suggested_lr());
  EXPECT_FALSE(find_lr(range_curve(1e-6, 1.0, 0.0, 2), 2).suggested_lr());
}

TEST(LrRange, RangesAreTwoRatesAboveZero) {
  const auto range = parse_lr_range("1e-6..1");
  ASSERT_TRUE(range.ok());
  EXPECT_EQ(range->from, 1e-6);
  EXPECT_EQ(range->to, 1.0);
  for (const char* text : {"", "1", "1..", "..1", "0..1", "-1..1", "1..1e-6", "1..1", "a..b",
                           "1e-6..1:log5", "1e-6..1,2", "1..2..3"}) {
    EXPECT_EQ(parse_lr_range(text).error().kind, ErrorKind::Usage) << text;
  }
}

}  // namespace
}  // namespace trireme
