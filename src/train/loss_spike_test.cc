#include "train/loss_spike.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "train/rank_agreement.h"
#include "train/save_schedule.h"

namespace trireme {
namespace {

// A loss that falls and varies by a hundredth.
double falling(int step) { return 5.0 - 0.005 * step + 0.05 * std::sin(step * 1.7); }

TEST(LossSpike, IsSeenInAFallingLossWhichIsNoneItself) {
  LossSpike spike;
  for (int step = 0; step < 500; ++step) ASSERT_FALSE(spike.sees(falling(step))) << step;
  EXPECT_TRUE(spike.sees(5.0));
  EXPECT_GT(spike.z_score(), LossSpike::kZScore);
  EXPECT_TRUE(spike.sees(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_FALSE(spike.sees(falling(500))) << "a spike does not enter the window";
}

TEST(LossSpike, IsNotJudgedBeforeThereAreEnoughLosses) {
  LossSpike spike;
  for (size_t step = 0; step < LossSpike::kFewest; ++step) {
    EXPECT_FALSE(spike.sees(step % 2 == 0 ? 1.0 : 100.0));
  }
}

TEST(LossSpike, EqualLossesMayVaryALittle) {
  LossSpike spike;
  for (int step = 0; step < 100; ++step) ASSERT_FALSE(spike.sees(2.0));
  EXPECT_FALSE(spike.sees(2.05));
  EXPECT_TRUE(spike.sees(2.5));
}

TEST(RankWord, ReadsBack) {
  const RankWord word{.stage = 3,
                      .compute_s = 0.12345678901234567,
                      .exposed_comm_s = 0.25,
                      .bubble_s = 1e-9,
                      .peak_bytes = int64_t{1} << 40,
                      .intervals = {100, 1, 20}};
  const RankWord read = rank_word_in(text_of(word));
  EXPECT_EQ(read.stage, 3);
  EXPECT_EQ(read.compute_s, word.compute_s);
  EXPECT_EQ(read.exposed_comm_s, word.exposed_comm_s);
  EXPECT_EQ(read.bubble_s, word.bubble_s);
  EXPECT_EQ(read.peak_bytes, word.peak_bytes);
  EXPECT_EQ(read.intervals.disk, 100);
  EXPECT_EQ(read.intervals.memory, 1);
  EXPECT_EQ(read.intervals.agree_after, 20);
}

TEST(Stragglers, AreSlowerThanTheirStageNotThanOtherStages) {
  const RankWord even[] = {{0, 1.0}, {0, 1.0}, {1, 3.0}, {1, 3.0}};
  EXPECT_DOUBLE_EQ(straggler_excess_s(even), 0.0);
  const RankWord slow[] = {{0, 1.0}, {0, 2.0}, {1, 3.0}, {1, 3.0}};
  EXPECT_DOUBLE_EQ(straggler_excess_s(slow), 0.5);
}

TEST(SaveSchedule, OfAConfiguredNumberNeverChanges) {
  SaveSchedule schedule(5, 3);
  schedule.set(2);
  for (int64_t step = 4; step < 30; ++step) EXPECT_EQ(schedule.is_due(step), step % 5 == 0);
  EXPECT_FALSE(SaveSchedule(0, 0).is_due(10));
}

TEST(SaveSchedule, OfAutoWaitsForAnIntervalAndCountsFromTheLastSave) {
  SaveSchedule schedule(kAutoSteps, 10);
  EXPECT_FALSE(schedule.is_due(1000));
  schedule.set(7);
  EXPECT_FALSE(schedule.is_due(16));
  EXPECT_TRUE(schedule.is_due(17));
  schedule.note_save(17);
  EXPECT_FALSE(schedule.is_due(18));
  schedule.set(1);
  EXPECT_TRUE(schedule.is_due(18));
}

}  // namespace
}  // namespace trireme
