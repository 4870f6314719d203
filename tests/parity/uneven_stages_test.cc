#include <gtest/gtest.h>

#include <algorithm>

#include "layout_case.h"
#include "layout_laws.h"
#include "planner/make_plan.h"
#include "program/check_ranks.h"
#include "program/make_schedule.h"

namespace trireme {
namespace {

constexpr const char* kStageByStage = "tp,cp,dp,pp";

// A pipeline whose places have their own numbers of ranks along dp.
Case uneven(int dp, const std::string& stage_dp, Case c = {}) {
  c.dp = dp;
  c.pp = int(std::count(stage_dp.begin(), stage_dp.end(), ',')) + 1;
  c.stage_dp = stage_dp;
  c.order = kStageByStage;
  if (c.family == "gpt2") c.family = "llama";  // without a table that both ends hold
  return c;
}

// Losses, gradients and weights have the bits of one rank, and memory and traffic are as predicted.
TEST(ParityOfUnevenStages, EverySchedule) {
  int run = 0;
  const std::vector<std::string> families = {"llama", "moe", "llama_window", "llama_latent"};
  for (const ScheduleKind schedule : kNamedSchedules) {
    if (schedule == ScheduleKind::Dualpipe) continue;
    Case c{.schedule = schedule, .zero = run % 4, .family = families[size_t(run) % 4]};
    c.recompute = kRecomputes[size_t(run) % std::size(kRecomputes)];
    expect_the_bits_of_one_rank(uneven(2, run % 2 == 0 ? "2,1" : "1,2", c));
    ++run;
  }
}

TEST(ParityOfUnevenStages, DegreesZeroAndLayers) {
  for (int zero = 0; zero <= 3; ++zero) {
    Case c{.schedule = zero % 2 == 0 ? ScheduleKind::OneFOneB : ScheduleKind::ZbH1, .zero = zero};
    c.prefetch = zero;
    expect_the_bits_of_one_rank(uneven(4, zero % 3 == 0 ? "4,1" : "2,4", c));
  }
  // Both ends hold the table of a tied head.
  Case tied = uneven(2, "2,1,2", {.zero = 1});
  tied.family = "gpt2";
  expect_the_bits_of_one_rank(tied);
  expect_the_bits_of_one_rank(
      uneven(4, "1,4,2", {.schedule = ScheduleKind::Gpipe, .stage_layers = "2,5,1"}));
  // No place has as many ranks as the batch has parts.
  expect_the_bits_of_one_rank(uneven(4, "2,1", {.zero = 2, .post_validate = true}));
  expect_the_bits_of_one_rank(
      uneven(2, "1,2", {.zero = 1, .offload = OffloadChoice::Optimizer, .bucket_bytes = 5000}));
  expect_the_bits_of_one_rank(uneven(2, "2,1", {.zero = 2, .compute = ComputeChoice::Bf16}));
}

// tp ranks share every stage, in slices with the bits of one rank.
TEST(ParityOfUnevenStages, BesideTensorParallelism) {
  expect_the_bits_of_one_rank(
      uneven(2, "2,1", {.zero = 1, .tp = 2, .in_slices = true, .is_wide = true}));
}

// Layers are split as they are stated under every schedule.
TEST(ParityOfUnevenStages, StatedLayersUnderEverySchedule) {
  for (const ScheduleKind schedule : kNamedSchedules) {
    Case c{.pp = 2, .schedule = schedule, .family = "llama"};
    const int stages = num_stages(plan_of(c).schedule);
    c.stage_layers = stages == 4 ? "1,4,2,1" : "6,2";
    const RunPlan plan = plan_of(c);
    EXPECT_EQ(plan.stages.front().num_layers, stages == 4 ? 1 : 6);
    expect_the_bits_of_one_rank(c);
  }
}

// A rank that takes its lanes in another order, or one of them twice, is noticed.
TEST(ParityOfUnevenStages, DamagedLanesAreRefused) {
  const RunPlan plan = plan_of(uneven(2, "2,1"));
  const auto problems_of = [&](const RunPlan& damaged) {
    return check_ranks(damaged.schedule, damaged.mesh, damaged.pipeline, damaged.mode);
  };
  ASSERT_TRUE(problems_of(plan).empty());
  const Program& program = plan.pipeline.back().program;
  int refused = 0, tried = 0;
  for (size_t i = 0; i + 1 < program.size(); ++i) {
    const bool is_of_two_lanes = computes(program[i].kind) && computes(program[i + 1].kind) &&
                                 program[i].kind == program[i + 1].kind &&
                                 program[i].microbatch != program[i + 1].microbatch;
    for (const bool swaps : {true, false}) {
      if (swaps && !is_of_two_lanes) continue;
      if (!swaps && !is_transfer(program[i].kind)) continue;
      RunPlan damaged = plan;
      Program& own = damaged.pipeline.back().program;
      if (swaps) std::swap(own[i], own[i + 1]);
      if (!swaps) own.erase(own.begin() + int64_t(i));
      ++tried;
      refused += problems_of(damaged).empty() ? 0 : 1;
    }
  }
  EXPECT_GT(tried, 10);
  EXPECT_EQ(refused, tried);
}

// A place with fewer ranks gets fewer layers.
TEST(ParityOfUnevenStages, LayersFollowTheRanks) {
  const RunPlan plan = plan_of(uneven(4, "4,1"));
  EXPECT_GT(plan.stages[0].num_layers, plan.stages[1].num_layers);
}

}  // namespace
}  // namespace trireme
