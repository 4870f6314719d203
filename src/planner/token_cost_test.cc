#include "planner/token_cost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trireme {
namespace {

// Days and device hours are proportional to the tokens and to the seconds of a step; twice the
// ranks at the same speed take the same days and twice the device hours.
TEST(TokenCost, IsLinear) {
  const RunSpeed speed{.tokens_per_step = 4e6, .step_s = 10.0, .num_ranks = 64};
  const TokenCost one = token_cost(1e12, speed, 2.5);
  EXPECT_DOUBLE_EQ(one.days * 86400.0, 1e12 / 4e6 * 10.0);
  for (const double factor : {0.5, 2.0, 15.0}) {
    const TokenCost more = token_cost(factor * 1e12, speed, 2.5);
    EXPECT_DOUBLE_EQ(more.days, factor * one.days);
    EXPECT_DOUBLE_EQ(more.device_hours, factor * one.device_hours);
    EXPECT_DOUBLE_EQ(*more.cost, factor * *one.cost);
    RunSpeed slower = speed;
    slower.step_s *= factor;
    EXPECT_DOUBLE_EQ(token_cost(1e12, slower, {}).days, factor * one.days);
  }
  RunSpeed larger = speed;
  larger.num_ranks *= 2;
  const TokenCost twice = token_cost(1e12, larger, 5.0);
  EXPECT_DOUBLE_EQ(twice.days, one.days);
  EXPECT_DOUBLE_EQ(twice.device_hours, 2.0 * one.device_hours);
  EXPECT_DOUBLE_EQ(*twice.cost, 4.0 * *one.cost);
  EXPECT_FALSE(token_cost(1e12, speed, {}).cost);
}

TEST(TokenCost, EnergyIsThatOfAllDevices) {
  RunSpeed speed{.tokens_per_step = 4e6, .step_s = 10.0, .num_ranks = 64};
  EXPECT_FALSE(token_cost(1e12, speed, {}).megawatt_hours);
  speed.watts = 700.0;
  const TokenCost cost = token_cost(1e12, speed, {});
  EXPECT_DOUBLE_EQ(*cost.megawatt_hours, 700e-6 * cost.device_hours);
}

// The time with failures is that of the work and of what every failure costs.
TEST(TokenCost, TheDaysWithFailuresAreWorkAndWhatFailuresCost) {
  RunSpeed speed{.tokens_per_step = 4e6, .step_s = 10.0, .num_ranks = 64};
  EXPECT_FALSE(token_cost(1e12, speed, {}).with_failures);
  speed.restart_s = 600.0;
  double before = 0.0;
  for (const int64_t every : {1, 60, 360}) {
    speed.steps_of_checkpoint = every;
    speed.mtbf_hours = 20000.0;
    const TokenCost cost = token_cost(1e12, speed, {});
    const double lost_days = (600.0 + 5.0 * double(every)) / 86400.0;
    EXPECT_NEAR(cost.with_failures->days, cost.days + cost.with_failures->failures * lost_days,
                1e-9 * cost.days);
    EXPECT_GT(cost.with_failures->days, before);
    before = cost.with_failures->days;
  }
  speed.mtbf_hours = 1.0;
  EXPECT_TRUE(std::isinf(token_cost(1e12, speed, {}).with_failures->days));
}

// Llama 3 (Grattafiori et al. 2024): 419 unexpected interruptions of 16,384 devices in 54 days.
TEST(TokenCost, ARunWithThePublishedRateHasThePublishedNumberOfFailures) {
  const double mtbf_hours = 54.0 * 24.0 * 16384.0 / 419.0;
  const RunSpeed speed{.tokens_per_step = 1e6,
                       .step_s = 10.0,
                       .num_ranks = 16384,
                       .mtbf_hours = mtbf_hours,
                       .restart_s = 0.0,
                       .steps_of_checkpoint = 30};
  const double tokens = 54.0 * 86400.0 / speed.step_s * speed.tokens_per_step;
  EXPECT_NEAR(token_cost(tokens, speed, {}).with_failures->failures, 419.0, 0.02 * 419.0);
}

TEST(TokenCost, ABatchOfTheNoiseScaleNeedsTwiceTheTokensOfTinyOnes) {
  EXPECT_DOUBLE_EQ(token_efficiency(2e6, 2e6), 0.5);
  EXPECT_NEAR(token_efficiency(1.0, 1e9), 1.0, 1e-8);
  EXPECT_GT(token_efficiency(1e6, 2e6), token_efficiency(2e6, 2e6));
}

TEST(TokenCost, NumbersThatAreNotPositiveAreRefusedWithTheirOption) {
  EXPECT_TRUE(check_token_options({}).ok());
  EXPECT_TRUE(check_token_options({1.0, 0.01, 1.0}).ok());
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double bad : {0.0, -1.0, std::nan(""), infinite, -infinite}) {
    const Status tokens = check_token_options({bad, {}, {}});
    const Status price = check_token_options({1e12, bad, {}});
    const Status noise = check_token_options({1e12, {}, bad});
    ASSERT_TRUE(!tokens.ok() && !price.ok() && !noise.ok()) << bad;
    EXPECT_EQ(tokens.error().kind, ErrorKind::Usage);
    EXPECT_EQ(tokens.error().message.find("--tokens"), 0u);
    EXPECT_EQ(price.error().message.find("--price-per-hour"), 0u);
    EXPECT_EQ(noise.error().message.find("--noise-scale"), 0u);
  }
  EXPECT_FALSE(check_token_options({{}, 2.0, {}}).ok());
  EXPECT_FALSE(check_token_options({{}, {}, 1e6}).ok());
  EXPECT_FALSE(check_token_options({1e19, {}, {}}).ok());
}

}  // namespace
}  // namespace trireme
