#include "autoparallel/knapsack_chooser.h"

#include <gtest/gtest.h>

#include <random>

#include "autoparallel/random_stage_fixture.h"

namespace trireme {
namespace {

TEST(KnapsackChooser, FindsTheLeastSecondsOfAllChoices) {
  std::mt19937 random(11);
  int found_some = 0, found_none = 0;
  for (int round = 0; round < 2000; ++round) {
    const int num_kinds = 1 + int(random() % 4);
    const int scratch = round % 3 == 0 ? 1 : round % 3 == 1 ? 300 : 5000;
    const RandomStage stage = random_stage(num_kinds, 1 + int(random() % 7), scratch, random);
    const std::vector<KindCosts> costs = stage.costs();
    KnapsackChooser chooser(stage.units, costs, stage.limit_bytes);
    double least = kImpossible;
    const bool is_found = chooser.run(least);
    EXPECT_EQ(least, least_of_all(stage)) << "round " << round;
    ++(is_found ? found_some : found_none);
    if (!is_found) continue;
    EXPECT_EQ(seconds_of(stage, chooser.best()), least);
    // Only a choice that takes less than the given time counts.
    EXPECT_FALSE(KnapsackChooser(stage.units, costs, stage.limit_bytes).run(least));
  }
  EXPECT_GT(found_some, 500);
  EXPECT_GT(found_none, 100);
}

// Two or three ways a kind, because there are 3^9 choices then.
TEST(KnapsackChooser, FindsTheLeastSecondsOfManyKinds) {
  std::mt19937 random(12);
  for (int round = 0; round < 30; ++round) {
    const RandomStage stage = random_stage(9, 2 + round % 2, 400, random);
    const std::vector<KindCosts> costs = stage.costs();
    double least = kImpossible;
    KnapsackChooser(stage.units, costs, stage.limit_bytes).run(least);
    EXPECT_EQ(least, least_of_all(stage)) << "round " << round;
  }
}

TEST(KnapsackChooser, AToleranceCostsNoMoreThanItsShare) {
  std::mt19937 random(13);
  for (int round = 0; round < 1000; ++round) {
    const RandomStage stage = random_stage(1 + int(random() % 5), 5, 400, random);
    const std::vector<KindCosts> costs = stage.costs();
    const double tolerance = round % 2 == 0 ? 0.002 : 0.05;
    KnapsackChooser chooser(stage.units, costs, stage.limit_bytes, tolerance);
    double least = kImpossible;
    const bool is_found = chooser.run(least);
    const double exact = least_of_all(stage);
    ASSERT_EQ(is_found, exact < kImpossible) << "round " << round;
    if (!is_found) continue;
    EXPECT_EQ(seconds_of(stage, chooser.best()), least);
    EXPECT_LE(least, exact * (1.0 + tolerance)) << "round " << round;
  }
}

// Ten kinds with 100 ways each have 10^20 choices.
TEST(KnapsackChooser, TenKindsNeedFewSums) {
  std::mt19937 random(14);
  for (int round = 0; round < 20; ++round) {
    const RandomStage stage = random_stage(10, 100, 400, random);
    const std::vector<KindCosts> costs = stage.costs();
    KnapsackChooser chooser(stage.units, costs, stage.limit_bytes, 0.002);
    double least = kImpossible;
    chooser.run(least);
    EXPECT_LT(chooser.num_sums(), 100000) << "round " << round;
  }
}

}  // namespace
}  // namespace trireme
