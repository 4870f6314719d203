#include "goodput/measured_share.h"

#include <gtest/gtest.h>

#include "goodput/failure_posterior.h"

namespace trireme {
namespace {

// A job of which every tenth failure needs the disk.
MeasuredJob job_with_recoveries(int from_memory, int from_disk) {
  MeasuredJob job{.step_s = 0.1, .disk = {.interval_s = 10.0, .save_s = 0.02, .delay_s = 0.5}};
  job.memory = SavePolicy{.interval_s = 0.1, .save_s = 0.001, .delay_s = 0.1};
  job.recoveries.assign(size_t(from_memory), {0.05, 0.4, true});
  job.recoveries.insert(job.recoveries.end(), size_t(from_disk), {0.05, 1.4, false});
  return job;
}

TEST(PredictedShare, WithoutFailuresIsWhatSavesLeave) {
  const MeasuredJob job = job_with_recoveries(0, 0);
  EXPECT_NEAR(predicted_share(job, 0.0), 1.0 / (1.0 + 0.02 / 10.0 + 0.001 / 0.1), 1e-12);
}

TEST(PredictedShare, EachFailureCostsItsRestartAndHalfTheIntervalOfItsTier) {
  const MeasuredJob job = job_with_recoveries(9, 1);
  const double memory_s = 0.45 - 0.15 + 0.1 + 0.05, disk_s = 1.45 - 0.15 + 0.5 + 5.0;
  const double saving = 0.02 / 10.0 + 0.001 / 0.1;
  const double lost = 0.9 * memory_s / 60.0 + 0.1 * disk_s / 60.0;
  EXPECT_NEAR(predicted_share(job, 1.0 / 60.0), (1.0 - lost) / (1.0 + saving), 1e-12);
}

// The prediction before the first failure must not be better than that after free recoveries.
TEST(PredictedShare, CountsStepsDoneAgainBeforeTheFirstFailure) {
  MeasuredJob job = job_with_recoveries(0, 0);
  const double before = predicted_share(job, 0.1);
  job.recoveries.push_back({0.0, 0.0, true});
  EXPECT_DOUBLE_EQ(before, predicted_share(job, 0.1));
}

TEST(FailurePosterior, ARunWithoutFailuresComesDownToThePriorOfItsHosts) {
  const double prior = 8 * kPriorPerHostDay / 86400.0;
  double former = 1.0;
  for (const double hours : {0.0, 0.1, 1.0, 10.0, 100.0}) {
    const double rate = posterior_failures_per_s(8, 0, 3600.0 * hours);
    EXPECT_LT(rate, former);
    former = rate;
  }
  EXPECT_LT(former, prior);
  EXPECT_GT(posterior_failures_per_s(8, 0, 3600.0), prior);
  EXPECT_LT(posterior_failures_per_s(8, 0, 3600.0), 10 * prior);
}

TEST(FailurePosterior, LearnsARateFromAFewFailures) {
  for (const double per_s : {1.0, 1.0 / 15.0, 1.0 / 3600.0}) {
    for (const int64_t failures : {5, 50, 500}) {
      const double rate = posterior_failures_per_s(2, failures, double(failures) / per_s);
      const double away = failures == 5 && per_s == 1.0 ? 8.0 : 2.0;
      EXPECT_LT(rate, away * per_s) << failures << " at " << per_s;
      EXPECT_GT(rate, per_s / away) << failures << " at " << per_s;
    }
  }
}

TEST(BestSteps, GrowWithTheCostOfASaveAndShrinkWithTheRate) {
  EXPECT_EQ(best_steps_between_saves(0.0, 1e-3, 0.1), 1);
  int64_t former = 0;
  for (const double save_s : {1e-4, 1e-3, 1e-2, 1e-1, 1.0}) {
    const int64_t steps = best_steps_between_saves(save_s, 1e-3, 0.01);
    EXPECT_GT(steps, former);
    EXPECT_LE(best_steps_between_saves(save_s, 1e-2, 0.01), steps);
    former = steps;
  }
  EXPECT_EQ(best_steps_between_saves(1e3, 1e-9, 1.0), 3600) << "at most an hour";
}

}  // namespace
}  // namespace trireme
