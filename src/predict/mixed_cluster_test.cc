#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compile/step_price.h"
#include "planner/make_plan.h"
#include "planner/small_run_fixture.h"
#include "predict/disturbed_step.h"
#include "predict/what_if.h"

namespace trireme {
namespace {

// The nodes of two_nodes() behind the first one have a device whose kernels take `times` as long.
Hardware mixed_nodes(double times) {
  Hardware hardware = two_nodes();
  hardware.name = "fast";
  hardware.step_s = 1e-6;
  OtherDevice other{.label = "slow", .first_rank = 2, .device = hardware};
  other.device.name = "slow";
  for (double Hardware::*speed :
       {&Hardware::fp32_flops, &Hardware::bf16_flops, &Hardware::memory_bytes_per_s}) {
    other.device.*speed /= times;
  }
  hardware.others.push_back(other);
  return hardware;
}

// Plans of four ranks: uniform ones, and one whose first place has as many ranks as the other two.
std::vector<RunConfig> layouts_of_four_ranks() {
  std::vector<RunConfig> configs;
  for (const auto& [tp, pp, zero] : {std::tuple{1, 1, 0},
                                     {1, 1, 1},
                                     {1, 1, 3},
                                     {2, 1, 1},
                                     {4, 1, 0},
                                     {1, 2, 2},
                                     {1, 4, 0},
                                     {2, 2, 0}}) {
    RunConfig config = small_run(ModelFamily::Gpt2);
    config.batch.global_sequences = 8;
    config.parallel.tp = tp;
    config.parallel.pp = pp;
    config.parallel.dp = 4 / (tp * pp);
    config.parallel.zero = config.parallel.dp == 1 ? 0 : zero;
    configs.push_back(config);
  }
  RunConfig& uneven = configs.emplace_back(configs.front());
  uneven.model.tied_head = false;
  uneven.parallel.pp = 3;
  uneven.parallel.dp = 2;
  uneven.parallel.stage_dp = "2,1,1";
  uneven.parallel.order = "tp,cp,dp,pp";
  return configs;
}

std::vector<RunPlan> plans_on(const Hardware& hardware, Reproducible sums = Reproducible::Fixed) {
  std::vector<RunPlan> plans;
  for (RunConfig config : layouts_of_four_ranks()) {
    config.run.reproducible = sums;
    Result<RunPlan> plan = make_plan(config, {.hardware = hardware});
    EXPECT_TRUE(plan.ok()) << plan.error().message;
    if (plan.ok()) plans.push_back(std::move(*plan));
  }
  return plans;
}

void expect_same_bits(const StepTimes& a, const StepTimes& b) {
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.compute, b.compute);
  EXPECT_EQ(a.bubble, b.bubble);
  EXPECT_EQ(a.exposed_comm, b.exposed_comm);
  EXPECT_EQ(a.optimizer, b.optimizer);
}

TEST(MixedCluster, OfEqualDevicesHasTheBitsOfThePlainOne) {
  const Hardware mixed = mixed_nodes(1.0), plain = mixed.all_of_device(0);
  for (const RunPlan& plan : plans_on(plain)) {
    EXPECT_EQ(predicted_step_s(plan, mixed), predicted_step_s(plan, plain));
    EXPECT_EQ(peak_flops(plan, mixed), peak_flops(plan, plain));
    const Predictions of_mixed = predict_ranks(plan, mixed), of_plain = predict_ranks(plan, plain);
    for (int rank = 0; rank < plan.num_ranks(); ++rank) {
      expect_same_bits(of_mixed.at(rank).time, of_plain.at(rank).time);
      EXPECT_EQ(of_mixed.at(rank).traffic, of_plain.at(rank).traffic);
    }
  }
}

TEST(MixedCluster, EqualNodesCanBeExchangedAndWrittenAsOneTable) {
  const Hardware one = mixed_nodes(2.0);
  Hardware two = one;
  two.others.front().ranks = 1;
  two.others.push_back(one.others.front());
  two.others.back().first_rank = 3;
  for (const RunPlan& plan : plans_on(one)) {
    EXPECT_EQ(predicted_step_s(plan, one), predicted_step_s(plan, two));
  }
}

// Two ranks of one device share a node, and so do those of the other one, or they are alone.
Hardware nodes_of(int64_t ranks_of_first, int64_t ranks_of_other) {
  Hardware hardware = mixed_nodes(2.0);
  hardware.tiers.front().ranks = ranks_of_first;
  hardware.others.front().ranks_per_node = ranks_of_other;
  return hardware;
}

TEST(MixedCluster, NodesOfOneSizeHaveTheBitsOfAFileThatDoesNotNameIt) {
  const Hardware without = mixed_nodes(2.0), with = nodes_of(2, 2);
  ASSERT_EQ(without.nodes().size_at(0), 2);
  for (const RunPlan& plan : plans_on(without)) {
    const Predictions a = predict_ranks(plan, without), b = predict_ranks(plan, with);
    for (int rank = 0; rank < plan.num_ranks(); ++rank) {
      expect_same_bits(a.at(rank).time, b.at(rank).time);
      EXPECT_EQ(a.at(rank).traffic, b.at(rank).traffic);
    }
  }
}

// Every rank sends what it alone would be asked to, and no step is faster than on larger nodes.
TEST(MixedCluster, SmallerNodesOfOneKindNeverMakeTheStepFaster) {
  const Hardware large = nodes_of(2, 2);
  for (const Hardware& small : {nodes_of(2, 1), nodes_of(1, 2)}) {
    int slower = 0;
    for (const RunPlan& plan : plans_on(large)) {
      const double large_s = predicted_step_s(plan, large), small_s = predicted_step_s(plan, small);
      EXPECT_GE(small_s, large_s * (1.0 - 1e-12));
      slower += small_s > large_s * (1.0 + 1e-12) ? 1 : 0;
      const Predictions all = predict_ranks(plan, small);
      for (int rank = 0; rank < plan.num_ranks(); ++rank) {
        EXPECT_EQ(all.at(rank).traffic, predict_traffic(plan, rank_plan(plan, rank), small.nodes()))
            << rank;
      }
    }
    EXPECT_GT(slower, 0);
  }
}

// With pp = 1 every step waits for the slow devices. With more stages only some of them are slow.
TEST(MixedCluster, AStepLiesBetweenThoseOfItsDevicesAlone) {
  const Hardware mixed = mixed_nodes(3.0);
  for (const RunPlan& plan : plans_on(mixed)) {
    const double fast_s = predicted_step_s(plan, mixed.all_of_device(0));
    const double slow_s = predicted_step_s(plan, mixed.all_of_device(1));
    const double step_s = predicted_step_s(plan, mixed);
    EXPECT_GT(step_s, fast_s);
    EXPECT_LE(step_s, slow_s * (1.0 + 1e-12));
    if (plan.mesh.pp == 1) {
      EXPECT_NEAR(step_s / slow_s, 1.0, 1e-9);
    }
  }
}

TEST(MixedCluster, ASlowerDeviceNeverMakesTheStepFaster) {
  const Hardware before = mixed_nodes(1.5);
  for (const RunPlan& plan : plans_on(before)) {
    const double before_s = predicted_step_s(plan, before);
    for (double Hardware::*speed :
         {&Hardware::bf16_flops, &Hardware::memory_bytes_per_s, &Hardware::matmul_share}) {
      for (int device = 0; device < 2; ++device) {
        Hardware after = before;
        (device == 0 ? after : after.others.front().device).*speed *= 0.6;
        EXPECT_GE(predicted_step_s(plan, after), before_s * (1.0 - 1e-12)) << device;
      }
    }
  }
}

// The parts of every rank's step add up to it, and a rank computes as long as its own device does,
// also where it adds gradients along a tree.
TEST(MixedCluster, RanksComputeOnTheirOwnDevices) {
  const Hardware mixed = mixed_nodes(3.0);
  for (const Reproducible sums : {Reproducible::Fixed, Reproducible::Layout}) {
    for (const RunPlan& plan : plans_on(mixed, sums)) {
      const Predictions all = predict_ranks(plan, mixed);
      for (int rank = 0; rank < plan.num_ranks(); ++rank) {
        const StepTimes& time = all.at(rank).time;
        EXPECT_NEAR(time.compute + time.exposed_comm + time.bubble, time.step, 1e-9 * time.step);
        const Predictions own = predict_ranks(plan, mixed.all_of_device(mixed.device_of(rank)));
        EXPECT_NEAR(time.compute / own.at(rank).time.compute, 1.0, 1e-9);
        EXPECT_GE(time.bubble, 0.0);
      }
      EXPECT_NE(plan.class_of[0], plan.class_of[3]);
      EXPECT_DOUBLE_EQ(peak_flops(plan, mixed),
                       peak_flops(plan, mixed.all_of_device(0)) * (2.0 + 2.0 / 3.0) / 4.0);
    }
  }
}

// A slow rank is priced on its own device: on the slow one it matters, on the fast one it may hide.
TEST(MixedCluster, ASlowRankIsSlowerThanItsDevice) {
  const Hardware mixed = mixed_nodes(3.0);
  for (const RunPlan& plan : plans_on(mixed)) {
    const double step_s = predicted_step_s(plan, mixed);
    const Result<WhatIf> slow = what_if(plan, mixed, {.ranks = {{3, 2.0}}});
    const Result<WhatIf> hidden = what_if(plan, mixed, {.ranks = {{0, 2.0}}});
    ASSERT_TRUE(slow.ok() && hidden.ok());
    EXPECT_EQ(slow->undisturbed_s, step_s);
    EXPECT_GT(slow->step_s(), step_s);
    if (plan.mesh.pp == 1) {
      EXPECT_NEAR(hidden->step_s() / step_s, 1.0, 1e-9);
    }
  }
}

// The ranks of a place with several lanes take every action several times.
TEST(MixedCluster, ASlowRankWithSeveralLanesIsSlowInAllOfThem) {
  RunConfig config = layouts_of_four_ranks().back();
  config.parallel.stage_dp = "1,2,1";
  const Hardware hardware = two_nodes();
  const RunPlan plan = make_plan(config, {.hardware = hardware}).value();
  const Predictions all = predict_ranks(plan, hardware);
  for (const int rank : {0, 3}) {
    const Result<WhatIf> slow = what_if(plan, hardware, {.ranks = {{rank, 2.0}}});
    ASSERT_TRUE(slow.ok()) << slow.error().message;
    const StepTimes after = slow->step->times(rank);
    EXPECT_NEAR(after.compute, 2.0 * all.at(rank).time.compute, 1e-9 * after.compute) << rank;
    EXPECT_GE(slow->step_s(), after.compute);
  }
}

}  // namespace
}  // namespace trireme
