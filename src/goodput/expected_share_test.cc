#include "goodput/expected_share.h"

#include <gtest/gtest.h>

#include <cmath>

#include "goodput/failure_rates.h"

namespace trireme {
namespace {

// One tier with Young's interval.
double share_with_young(double save_s, double restart_s, double mttf_s) {
  const SavePolicy tier{.interval_s = young_interval_s(save_s, mttf_s), .save_s = save_s};
  const FailuresOfTier failures{.per_s = 1.0 / mttf_s, .restart_s = restart_s};
  return expected_share({&tier, 1}, {&failures, 1});
}

// Kokolis et al. 2025: 12,000 devices in hosts of eight, a save and a restart of five minutes.
TEST(ExpectedShare, IsThePublishedOneForTwelveThousandDevices) {
  const double hosts = 12000.0 / 8.0;
  const auto mttf = [&](double per_host_day) { return kSecondsOfDay / (hosts * per_host_day); };
  EXPECT_NEAR(share_with_young(300.0, 300.0, mttf(6.5e-3)), 0.74, 0.005);
  EXPECT_NEAR(share_with_young(300.0, 300.0, mttf(1e-3)), 0.90, 0.005);
  EXPECT_NEAR(share_with_young(10.0, 300.0, mttf(6.5e-3)), 0.92, 0.005);
}

// Young's interval is the best one where saves are short, and Daly's is close to it there.
TEST(ExpectedShare, IsGreatestNearTheIntervalsOfYoungAndDaly) {
  constexpr double kMttf = 10000.0, kSave = 2.0;
  const auto share_of = [&](double interval_s) {
    const SavePolicy tier{.interval_s = interval_s, .save_s = kSave};
    const FailuresOfTier failures{.per_s = 1.0 / kMttf, .restart_s = 100.0};
    return expected_share({&tier, 1}, {&failures, 1});
  };
  const double young = young_interval_s(kSave, kMttf), daly = daly_interval_s(kSave, kMttf);
  EXPECT_DOUBLE_EQ(young, 200.0);
  EXPECT_NEAR(daly, young, 0.01 * young);
  for (const double factor : {0.5, 0.8, 1.25, 2.0}) {
    EXPECT_LT(share_of(factor * young), share_of(young));
    EXPECT_LT(share_of(factor * young), share_of(daly));
  }
  EXPECT_EQ(daly_interval_s(3.0 * kMttf, kMttf), kMttf);  // it hardly ever gets to a save
}

TEST(ExpectedShare, NeverFallsBelowZeroAndIsOneWithoutFailuresAndSaves) {
  EXPECT_EQ(share_with_young(300.0, 600.0, 60.0), 0.0);
  const SavePolicy free{.interval_s = 60.0};
  const FailuresOfTier none;
  EXPECT_EQ(expected_share({&free, 1}, {&none, 1}), 1.0);
}

}  // namespace
}  // namespace trireme
