#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "compile/stage_cost.h"
#include "layout_case.h"
#include "layout_laws.h"
#include "planner/make_plan.h"
#include "predict/predict.h"
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
  return c;
}

// Losses, gradients and weights have the bits of one rank, and memory and traffic are as predicted.
TEST(ParityOfUnevenStages, EverySchedule) {
  int run = 0;
  const std::vector<std::string> families = {"llama", "moe", "gpt2", "llama_window",
                                             "llama_latent"};
  for (const ScheduleKind schedule : kNamedSchedules) {
    if (schedule == ScheduleKind::Dualpipe) continue;  // below
    Case c{.schedule = schedule, .zero = run % 4};
    c.family = families[size_t(run) % families.size()];
    c.recompute = kRecomputes[size_t(run) % std::size(kRecomputes)];
    expect_the_bits_of_one_rank(uneven(2, run % 2 == 0 ? "2,1" : "1,2", c));
    ++run;
  }
}

// Dualpipe holds every stage at two places, so these have equally many ranks.
TEST(ParityOfUnevenStages, TwoDirections) {
  for (int zero = 0; zero <= 3; ++zero) {
    const Case c{.schedule = ScheduleKind::Dualpipe, .zero = zero};
    expect_the_bits_of_one_rank(uneven(2, zero % 2 == 0 ? "1,2,2,1" : "2,1,1,2", c));
    expect_the_bits_of_one_rank(uneven(4, zero % 2 == 0 ? "2,2" : "1,1", c));
  }
  expect_the_bits_of_one_rank(
      uneven(4, "2,2", {.schedule = ScheduleKind::Dualpipe, .post_validate = true}));
}

// The schedule is searched for one lane, with the times of all lanes. No named one is faster.
TEST(ParityOfUnevenStages, ASearchedSchedule) {
  for (const char* stage_dp : {"2,1", "1,2"}) {
    const Case c = uneven(2, stage_dp, {.schedule = ScheduleKind::Auto, .zero = 1});
    expect_the_bits_of_one_rank(c);
    const RunPlan plan = plan_of(c);
    const double searched_s = simulate_plan(plan, nominal_hardware())->makespan_s;
    for (const ScheduleKind kind : kNamedSchedules) {
      Case named = c;
      named.schedule = kind;
      if (kind == ScheduleKind::Dualpipe) continue;
      const double named_s = simulate_plan(plan_of(named), nominal_hardware())->makespan_s;
      EXPECT_LE(searched_s, named_s * (1.0 + 1e-9)) << stage_dp << " " << name_of(kind);
    }
  }
}

// Shards of a group of ranks, or of all ranks of a place that has fewer, and servers, of which no
// place has more than ranks.
TEST(ParityOfUnevenStages, GroupsOfShardsAndServers) {
  for (int zero = 1; zero <= 3; ++zero) {
    expect_the_bits_of_one_rank(uneven(4, "4,2", {.zero = zero, .hsdp_shard = 2}));
    expect_the_bits_of_one_rank(uneven(4, "2,4", {.zero = zero, .hsdp_shard = 4}));
    expect_the_bits_of_one_rank(uneven(4, "4,1", {.zero = zero, .hsdp_shard = 1}));
    expect_the_bits_of_one_rank(uneven(4, "2,4", {.zero = zero, .servers = 3}));
  }
}

// The ranks that share experts stand at one place. Along cp they take the same micro-batches. Along
// dp they meet with the micro-batches of other lanes, with ZeRO 2 and 3 the same at all places.
TEST(ParityOfUnevenStages, SharedExperts) {
  const Case along_cp{.family = "moe", .cp = 2, .ep = 2};
  expect_the_bits_of_one_rank(uneven(2, "2,1", along_cp));
  for (const int zero : {1, 2}) {
    const Case c = uneven(4, "4,2", {.zero = zero, .family = "moe", .ep = 2});
    SCOPED_TRACE(c.name());
    const LayoutRun run = run_case(c);
    EXPECT_EQ(run.differences, "");
    EXPECT_EQ(zero >= 2 ? difference(run, reference_of(c))
                        : beyond_bounds(run, reference_of({.family = "moe"})),
              "");
  }
}

TEST(ParityOfUnevenStages, DegreesZeroAndLayers) {
  for (int zero = 0; zero <= 3; ++zero) {
    Case c{.schedule = zero % 2 == 0 ? ScheduleKind::OneFOneB : ScheduleKind::ZbH1, .zero = zero};
    c.prefetch = zero;
    expect_the_bits_of_one_rank(uneven(4, zero % 3 == 0 ? "4,1" : "2,4", c));
  }
  expect_the_bits_of_one_rank(
      uneven(4, "1,4,2", {.schedule = ScheduleKind::Gpipe, .stage_layers = "2,5,1"}));
  // No place has as many ranks as the batch has parts.
  expect_the_bits_of_one_rank(uneven(4, "2,1", {.zero = 2, .post_validate = true}));
  expect_the_bits_of_one_rank(
      uneven(2, "1,2", {.zero = 1, .offload = OffloadChoice::Optimizer, .bucket_bytes = 5000}));
  expect_the_bits_of_one_rank(uneven(2, "2,1", {.zero = 2, .compute = ComputeChoice::Bf16}));
}

// The first and the last stage both hold the table of a tied head, or that which the modules of
// multi-token prediction read. Whatever part of it a rank owns there, the two gradients are added
// once.
TEST(ParityOfUnevenStages, ATiedTableUnderEverySchedule) {
  int run = 0;
  for (const ScheduleKind schedule : kNamedSchedules) {
    if (schedule == ScheduleKind::Dualpipe) continue;  // every place holds both ends
    for (const char* stage_dp : {"2,1", "1,2", "4,2"}) {
      Case c{.schedule = schedule, .zero = run % 4};
      c.family = run % 3 == 2 ? "llama_mtp" : run % 3 == 1 ? "gpt2_parallel" : "gpt2";
      expect_the_bits_of_one_rank(uneven(stage_dp[0] == '4' ? 4 : 2, stage_dp, c));
      ++run;
    }
  }
}

TEST(ParityOfUnevenStages, ATiedTableBesideTheRestOfALayout) {
  for (const char* stage_dp : {"4,1", "1,4", "2,1,4", "4,2,1"}) {
    for (int zero = 0; zero <= 3; ++zero) {
      expect_the_bits_of_one_rank(uneven(4, stage_dp, {.zero = zero}));
    }
    expect_the_bits_of_one_rank(uneven(4, stage_dp, {.zero = 1, .hsdp_shard = 2}));
    expect_the_bits_of_one_rank(uneven(4, stage_dp, {.zero = 2, .servers = 3}));
    expect_the_bits_of_one_rank(uneven(4, stage_dp, {.zero = 1, .post_validate = true}));
  }
  expect_the_bits_of_one_rank(uneven(2, "1,2", {.zero = 1, .cp = 2}));
  expect_the_bits_of_one_rank(uneven(2, "2,1", {.zero = 3, .compute = ComputeChoice::Bf16}));
  expect_the_bits_of_one_rank(
      uneven(2, "2,1", {.zero = 1, .offload = OffloadChoice::All, .bucket_bytes = 5000}));
}

// Shards of a table of several norm chunks have their borders inside the rows of tp ranks.
TEST(ParityOfUnevenStages, ATiedTableOfManyShards) {
  const auto run_of = [](const Case& c) {
    RunConfig config = config_of(c);
    config.model.vocab_size = 1019;
    config.model.d_model = 32;
    config.run.comm_timeout_s = 120.0;
    const Result<RunPlan> plan = make_plan(config, {});
    TRIREME_CHECK(plan.ok(), c.name() + ": " + plan.error().message);
    return run_layout(*plan, {.end = 2});
  };
  const LayoutRun whole = run_of({.in_slices = true, .is_wide = true, .layers = 2});
  for (const auto& [stage_tp, stage_dp] :
       {std::pair{"2,1", "1,4"}, {"1,2", "4,1"}, {"4,2", "1,1"}, {"2,1", "2,1"}, {"1,1", "2,4"}}) {
    for (const auto& [zero, hsdp_shard, servers] :
         {std::tuple{0, 0, 0}, {1, 0, 0}, {2, 2, 0}, {3, 0, 0}, {1, 0, 3}}) {
      Case c{.zero = zero, .hsdp_shard = hsdp_shard, .tp = 4, .in_slices = true, .is_wide = true};
      c.layers = 2;
      c.servers = servers;
      c.stage_tp = stage_tp;
      c = uneven(4, stage_dp, c);
      SCOPED_TRACE(c.name());
      const LayoutRun run = run_of(c);
      EXPECT_EQ(run.differences, "");
      EXPECT_EQ(difference(run, whole), "");
    }
  }
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
