#include "train/best_saves.h"

#include <gtest/gtest.h>

#include <limits>

namespace trireme {
namespace {

TrainPosition validated(int64_t step, double loss, int64_t validated_at = -1) {
  return {.step = step, .last_validation = {validated_at < 0 ? step : validated_at, loss}};
}

TEST(BestSaves, WantsWhatIsBetterThanEveryCheckpoint) {
  BestSaves saves({}, {100, 4.0});
  const int64_t none = -1;
  EXPECT_FALSE(saves.wants(validated(110, 4.0), none));
  EXPECT_FALSE(saves.wants(validated(110, std::numeric_limits<double>::quiet_NaN()), none));
  EXPECT_FALSE(saves.wants(validated(111, 3.0, 110), none));  // not the state of step 110 any more
  ASSERT_TRUE(saves.wants(validated(110, 3.0), none));
  saves.note_save(validated(110, 3.0), none);
  EXPECT_FALSE(saves.wants(validated(120, 3.5), none));
  EXPECT_TRUE(saves.wants(validated(120, 2.5), none));
}

TEST(BestSaves, ASaveThatFailedLeavesTheOneBeforeIt) {
  BestSaves saves({}, {});
  saves.note_save(validated(10, 5.0), -1);
  saves.note_save(validated(20, 3.0), -1);
  EXPECT_FALSE(saves.wants(validated(30, 4.0), -1));
  EXPECT_TRUE(saves.wants(validated(30, 4.0), 20));
  EXPECT_FALSE(saves.wants(validated(30, 5.5), 20));
}

TEST(BestSaves, AreOffIfTheRunSaysSoOrSavesNothing) {
  for (const CheckpointConfig& off :
       {CheckpointConfig{.best = BestChoice::None}, CheckpointConfig{.best = BestChoice::Off},
        CheckpointConfig{.every = 0, .at_end = false}}) {
    EXPECT_FALSE(BestSaves(off, {}).wants(validated(10, 1.0), -1));
  }
}

}  // namespace
}  // namespace trireme
