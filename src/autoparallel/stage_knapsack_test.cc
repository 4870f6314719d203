#include "autoparallel/stage_knapsack.h"

#include <gtest/gtest.h>

#include <random>

#include "autoparallel/random_stage_fixture.h"
#include "autoparallel/way_chooser.h"

namespace trireme {
namespace {

// The lower bound may be wrong in the last digits of a sum.
constexpr double kRounding = 1.0 + 1e-9;

TEST(WayBounds, EncloseTheLeastSecondsOfAllChoices) {
  std::mt19937 random(15);
  int inside = 0, equal = 0;
  for (int round = 0; round < 2000; ++round) {
    const int scratch = round % 3 == 0 ? 1 : round % 3 == 1 ? 300 : 5000;
    const RandomStage stage = random_stage(1 + int(random() % 4), 6, scratch, random);
    const WayBounds bounds(stage.costs());
    const SecondsBounds found = bounds.of(stage.units, stage.limit_bytes);
    const double exact = least_of_all(stage);
    EXPECT_LE(found.lower, exact * kRounding) << "round " << round;
    EXPECT_GE(found.upper, exact) << "round " << round;
    ++(found.upper > found.lower ? inside : equal);
  }
  EXPECT_GT(inside, 300);
  EXPECT_GT(equal, 300);
}

// The search over pipelines stops at the first stage whose lower bound is too high.
TEST(WayBounds, TheLowerBoundNeverFallsWithMoreUnits) {
  std::mt19937 random(16);
  for (int round = 0; round < 1000; ++round) {
    const RandomStage stage = random_stage(5, 6, 300, random);
    const WayBounds bounds(stage.costs());
    std::vector<PlacedUnits> units;
    double before = 0.0;
    for (const PlacedUnits& unit : stage.units) {
      units.push_back({unit.kind, unit.first_unit, 0, {}});
      for (int more = 0; more < unit.count; ++more) {
        ++units.back().count;
        const double lower = bounds.of(units, stage.limit_bytes).lower;
        EXPECT_GE(lower * kRounding, before) << "round " << round;
        before = lower;
      }
    }
  }
}

// A stage of several meshes takes at most the tolerance longer than the best choice on any of them.
TEST(StageKnapsack, FindsTheBestMeshWithinTheTolerance) {
  std::mt19937 random(17);
  int found_some = 0;
  for (int round = 0; round < 500; ++round) {
    const int num_kinds = 1 + int(random() % 5);
    std::vector<RandomStage> stages;
    std::vector<MeshWays> meshes;
    for (int mesh = 0; mesh < 3; ++mesh) {
      stages.push_back(random_stage(num_kinds, 5, 300, random));
      stages.back().units = stages.front().units;
      stages.back().limit_bytes = stages.front().limit_bytes;
      stages.back().in_flight = stages.front().in_flight;
      meshes.push_back({{}, {}, stages.back().kinds});
    }
    double exact = kImpossible;
    for (const RandomStage& stage : stages) exact = std::min(exact, least_of_all(stage));
    const RandomStage& asked = stages.front();
    for (const double tolerance : {0.0, 0.01}) {
      StageKnapsack knapsack(meshes, asked.limit_bytes, tolerance);
      const StageKnapsack::Choice choice = knapsack.choose(asked.units, asked.in_flight);
      ASSERT_EQ(choice.mesh >= 0, exact < kImpossible);
      const SecondsBounds bounds = knapsack.bounds(asked.units, asked.in_flight);
      EXPECT_LE(bounds.lower, exact * kRounding);
      EXPECT_GE(bounds.upper, exact);
      if (choice.mesh < 0) continue;
      ++found_some;
      EXPECT_LE(choice.seconds, exact * (1.0 + tolerance) * kRounding) << "round " << round;
      EXPECT_EQ(seconds_of(stages[size_t(choice.mesh)], choice.ways), choice.seconds);
      EXPECT_TRUE(knapsack.fits(asked.units, choice, asked.in_flight));
    }
  }
  EXPECT_GT(found_some, 300);
}

// Both choosers of a stage agree.
TEST(StageKnapsack, WithoutAToleranceItIsAsGoodAsTryingAllWays) {
  std::mt19937 random(18);
  for (int round = 0; round < 300; ++round) {
    RandomStage stage = random_stage(6, 6, 400, random);
    for (std::vector<UnitWay>& ways : stage.kinds) {
      std::sort(ways.begin(), ways.end(),
                [](const UnitWay& a, const UnitWay& b) { return a.cost.seconds < b.cost.seconds; });
    }
    double all_s = kImpossible;
    WayChooser(stage.units, stage.kinds, stage.limit_bytes, stage.in_flight).run(all_s);
    const std::vector<MeshWays> meshes = {{{}, {}, stage.kinds}};
    StageKnapsack knapsack(meshes, stage.limit_bytes, 0.0);
    EXPECT_EQ(knapsack.choose(stage.units, stage.in_flight).seconds, all_s) << "round " << round;
  }
}

}  // namespace
}  // namespace trireme
