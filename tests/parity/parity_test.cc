#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "graph/layer_keep.h"
#include "layout_case.h"
#include "layout_laws.h"
#include "pairwise.h"
#include "planner/make_plan.h"
#include "program/make_schedule.h"
#include "schema/run_config_validate.h"
#include "train/expert_load.h"

namespace trireme {
namespace {

// Every value of a layer that can be computed again.
uint64_t layer_choices(const RunPlan& plan) {
  return all_again(layer_keep(plan.model, plan.shape, 0).fused);
}

// Visits every schedule and ZeRO stage of `ranks` ranks, with every recomputation or with one in
// turn.
void enumerate(int ranks, bool every_recomputation) {
  const std::vector<std::string> families = {"gpt2",         "llama",           "moe",
                                             "moe_capacity", "moe_dense_first", "gpt2_parallel",
                                             "llama_scaled", "llama_qk_norm",   "llama_window",
                                             "llama_latent", "moe_latent"};
  int run = 0;
  for (int pp = 1; pp <= ranks; pp *= 2) {
    for (const ScheduleKind schedule : kNamedSchedules) {
      for (int zero = 0; zero <= 3; ++zero) {
        Case c{.dp = ranks / pp, .pp = pp, .schedule = schedule, .zero = zero};
        if ((zero > 0 && c.dp == 1) || !is_possible(c)) continue;
        const size_t first = every_recomputation ? 0 : size_t(run) % std::size(kRecomputes);
        const size_t count = every_recomputation ? std::size(kRecomputes) : 1;
        for (size_t i = first; i < first + count; ++i) {
          c.recompute = kRecomputes[i];
          c.family = families[size_t(run) % families.size()];
          c.offload = run % 5 < 3    ? OffloadChoice::None
                      : run % 5 == 3 ? OffloadChoice::Optimizer
                                     : OffloadChoice::All;
          c.bucket_bytes = run % 3 == 1 ? 5000 : 0;
          c.prefetch = run % 4;
          expect_the_bits_of_one_rank(c);
          ++run;
        }
      }
    }
  }
  EXPECT_GT(run, 0);
}

TEST(Parity, OneRank) { enumerate(1, true); }
TEST(Parity, TwoRanks) { enumerate(2, false); }
TEST(Parity, FourRanks) { enumerate(4, false); }
TEST(Parity, EightRanks) { enumerate(8, false); }
TEST(ParityInFull, TwoRanks) { enumerate(2, true); }
TEST(ParityInFull, FourRanks) { enumerate(4, true); }
TEST(ParityInFull, EightRanks) { enumerate(8, true); }

// "fit" within limits that force a mixed set of values has the bits of "none", and its memory and
// traffic are the predicted ones.
TEST(Parity, ValuesChosenToFit) {
  const std::vector<Case> layouts = {
      {.family = "gpt2", .dropout = 0.2},
      {.dp = 2, .zero = 3, .family = "llama", .offload = OffloadChoice::All},
      {.pp = 2, .schedule = ScheduleKind::ZbH1, .family = "gpt2_parallel"},
      {.dp = 2, .pp = 2, .schedule = ScheduleKind::ZbV, .zero = 2, .family = "llama"},
      {.pp = 2, .schedule = ScheduleKind::ZbH1, .family = "llama", .tp = 2, .sequence = true},
      {.family = "gpt2", .tp = 2, .sequence = true, .tp_overlap = true},
      {.pp = 4, .schedule = ScheduleKind::Interleaved, .family = "llama_scaled", .dropout = 0.2},
      {.pp = 2, .schedule = ScheduleKind::Dualpipe, .family = "moe"},
      {.family = "llama", .cp = 2},
      {.family = "moe_capacity", .tp = 2, .sequence = true},
      {.dp = 2, .family = "moe", .cp = 2, .ep = 4},
      {.family = "gpt2", .tp = 2, .in_slices = true}};
  int num_mixed = 0;
  for (const Case& layout : layouts) {
    Case none = layout;
    const LayoutRun expected = run_layout(plan_of(none));
    for (const double room : {0.25, 0.5, 0.75}) {
      Case c = layout;
      c.recompute = Recompute::Fit;
      c.room = room;
      SCOPED_TRACE(c.name());
      const RunPlan plan = plan_of(c);
      EXPECT_NE(plan.shape.again, 0u);
      num_mixed += plan.shape.again != layer_choices(plan);
      const LayoutRun run = run_layout(plan);
      EXPECT_EQ(run.differences, "");
      EXPECT_EQ(difference(run, expected), "");
    }
  }
  EXPECT_GE(num_mixed, 2 * int(layouts.size()));
}

// Experts on several ranks: the results are within the bound of one rank, with the same visits.
// They have the bits of the same ranks for every schedule, recomputation, and storage of gradients
// and state.
TEST(Parity, ExpertParallel) {
  for (const char* family : {"moe", "moe_capacity"}) {
    const LayoutRun& whole = reference_of({.family = family});
    for (const int dp : {2, 4}) {
      for (int ep = 2; ep <= dp; ep *= 2) {
        const Case alone{.dp = dp, .family = family, .ep = ep};
        SCOPED_TRACE(alone.name());
        const LayoutRun first = run_layout(plan_of(alone));
        EXPECT_EQ(first.differences, "");
        EXPECT_EQ(first.expert_loads, whole.expert_loads);
        expect_near(first, whole);
        Case c = alone;
        c.zero = 1;
        c.pp = 2;
        c.schedule = ScheduleKind::ZbH1;
        c.recompute = Recompute::Full;
        const LayoutRun second = run_layout(plan_of(c));
        EXPECT_EQ(second.differences, "");
        EXPECT_EQ(difference(second, first), "");
        for (const int zero : {2, 3}) {  // other micro-batches meet in the experts
          Case sharded = alone;
          sharded.zero = zero;
          sharded.recompute = Recompute::Selective;
          const LayoutRun run = run_layout(plan_of(sharded));
          EXPECT_EQ(run.differences, "");
          expect_near(run, whole);
          EXPECT_EQ(run.expert_loads, whole.expert_loads);
        }
      }
    }
  }
}

// The report of a step does not depend on how tokens are spread over ranks and micro-batches, or on
// repeated forward passes.
TEST(Parity, RoutersLossesAreThoseOfOneRank) {
  const auto means_of = [](RunConfig config) {
    config.model.aux_loss = 0.01;
    config.model.balance_rate = 0.0;
    const Result<RunPlan> plan = make_plan(config, {});
    TRIREME_CHECK(plan.ok(), plan.error().message);
    const LayoutRun run = run_layout(*plan, {.end = 1});
    EXPECT_EQ(run.router_losses.size(), size_t(2 * plan->model.layers));
    return router_loss_means(run.router_losses, plan->model, plan->tokens_per_step());
  };
  const Case one{.family = "moe"};
  const RouterLossMeans whole = means_of(config_of(one));
  EXPECT_GT(*whole.aux, 1.0);
  EXPECT_LT(*whole.aux, 4.0);
  EXPECT_GT(*whole.z, 0.0);
  for (const Case& same :
       {Case{.dp = 2}, Case{.pp = 2}, Case{.dp = 2, .zero = 3},
        Case{.dp = 2, .pp = 2, .schedule = ScheduleKind::ZbV, .recompute = Recompute::Full},
        Case{.recompute = Recompute::Selective}}) {
    Case c = same;
    c.family = one.family;
    const RouterLossMeans means = means_of(config_of(c));
    EXPECT_EQ(means.aux, whole.aux) << c.name();
    EXPECT_EQ(means.z, whole.z) << c.name();
  }
  std::vector<RunConfig> near = {config_of({.dp = 2, .family = "moe", .ep = 2}),
                                 config_of({.family = "moe", .cp = 2}),
                                 config_of({.family = "moe", .tp = 2, .sequence = true}),
                                 config_of({.dp = 2, .family = "moe", .cp = 2, .ep = 4})};
  for (const int64_t micro_sequences : {2, 16}) {
    near.push_back(config_of(one));
    near.back().batch.micro_sequences = micro_sequences;
  }
  for (const RunConfig& config : near) {
    const ParallelConfig& parallel = config.parallel;
    SCOPED_TRACE(fmt::format("dp {} tp {} cp {} ep {} micro-batches of {}", parallel.dp,
                             parallel.tp, parallel.cp, parallel.ep, config.batch.micro_sequences));
    const RouterLossMeans means = means_of(config);
    EXPECT_NEAR(*means.aux, *whole.aux, 1e-6);
    EXPECT_NEAR(*means.z, *whole.z, 1e-6 * *whole.z);
  }
}

TEST(Parity, ACheckpointOfExpertsMovesBetweenLayouts) {
  const Case layouts[] = {{.family = "moe"},
                          {.dp = 4, .zero = 3, .family = "moe", .ep = 2},
                          {.dp = 2, .pp = 2, .zero = 1, .family = "moe", .ep = 2}};
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / fmt::format("trireme-experts-{}", getpid());
  const LayoutRun& whole = reference_of(layouts[0]);
  int number = 0;
  for (const Case& from : layouts) {
    const std::string folder = (root / std::to_string(number++)).string();
    run_layout(plan_of(from), {.end = 2, .save_to = folder});
    for (const Case& to : layouts) {
      SCOPED_TRACE(from.name() + " -> " + to.name());
      const LayoutRun rest =
          run_layout(plan_of(to), {.first = 2, .end = 5, .load_from = folder + "/step-000002"});
      EXPECT_NEAR(rest.losses.back(), whole.losses.back(), 2e-5 * whole.losses.back());
    }
  }
  std::filesystem::remove_all(root);
}

TEST(Parity, SearchedSchedules) {
  for (const int zero : {0, 1, 2, 3}) {
    for (const int pp : {1, 2, 4}) {
      const Case c{.dp = zero == 0 ? 1 : 2,
                   .pp = pp,
                   .schedule = ScheduleKind::Auto,
                   .zero = zero,
                   .recompute = zero % 2 == 0 ? Recompute::None : Recompute::Full,
                   .family = pp == 4 ? "gpt2" : "llama"};
      expect_the_bits_of_one_rank(c);
    }
  }
}

// Gradients are pushed to a few ranks, updated there and pulled: with whole copies, with gradients
// or parameters only on the servers, and in pipelines.
TEST(Parity, ParameterServers) {
  const std::vector<ScheduleKind> schedules = {ScheduleKind::OneFOneB, ScheduleKind::ZbH1,
                                               ScheduleKind::Interleaved};
  for (const int dp : {1, 2, 4}) {
    for (int servers = 1; servers <= dp; ++servers) {
      for (const int zero : {0, 2, 3}) {
        Case c{.dp = dp, .zero = zero, .servers = servers};
        c.family = zero == 2 ? "llama" : "gpt2";
        c.compute = zero == 3 ? ComputeChoice::Bf16 : ComputeChoice::Fp32;
        c.offload = servers == 2 ? OffloadChoice::Optimizer : OffloadChoice::None;
        expect_the_bits_of_one_rank(c);
        if (dp != 2) continue;
        c.pp = 2;
        c.schedule = schedules[size_t(zero) % schedules.size()];
        expect_the_bits_of_one_rank(c);
      }
    }
  }
  // Workers that hold no part of the parameters have no offload file.
  for (const int pp : {1, 3}) {
    expect_the_bits_of_one_rank({.dp = 2,
                                 .pp = pp,
                                 .zero = 3,
                                 .family = "llama",
                                 .offload = OffloadChoice::All,
                                 .servers = 1});
  }
}

// The numbers of ranks decide which of them share a node, and nothing else.
TEST(Parity, EveryOrderOfTheAxes) {
  for (const char* order : {"tp,cp,dp,pp", "pp,dp,tp,cp", "dp,cp,tp,pp"}) {
    expect_the_bits_of_one_rank({.dp = 2, .pp = 2, .zero = 3, .tp = 2, .order = order});
    expect_the_bits_of_one_rank(
        {.dp = 2, .zero = 1, .family = "moe", .cp = 2, .ep = 4, .order = order});
  }
}

TEST(Parity, SharedAndCopiedShards) {
  for (const int zero : {1, 2, 3}) {
    expect_the_bits_of_one_rank({.dp = 4, .zero = zero, .hsdp_shard = 2});
    expect_the_bits_of_one_rank(
        {.dp = 4, .pp = 2, .schedule = ScheduleKind::ZbH1, .zero = zero, .hsdp_shard = 2});
  }
}

// Also tested if the micro-batches of one direction are not a node of the tree over all of them.
TEST(Parity, TwoDirectionsOverAnyNumberOfRanks) {
  const Case layouts[] = {
      {.dp = 3},
      {.dp = 3, .zero = 1, .family = "llama", .offload = OffloadChoice::All},
      {.dp = 3, .family = "moe", .post_validate = true},
      {.dp = 3, .zero = 1, .compute = ComputeChoice::Bf16, .dropout = 0.1, .tp = 2},
      {.dp = 3, .pp = 4, .recompute = Recompute::Full},
      {.dp = 5, .zero = 1, .bucket_bytes = 5000},
      {.dp = 6, .family = "llama"},
      {.dp = 6, .zero = 1, .hsdp_shard = 2, .family = "moe"},
      {.dp = 3, .family = "llama", .servers = 2}};
  for (Case c : layouts) {
    c.schedule = ScheduleKind::Dualpipe;
    c.pp = std::max(c.pp, 2);
    c.sequences = 2 * c.pp * c.dp;
    expect_the_bits_of_one_rank(c);
  }
}

// Validation and the plan refuse a layout that would break the tree, with the same message. The
// values that the message names are accepted.
TEST(Parity, SumsThatAreNoNodesOfTheTreeAreRefused) {
  const auto refusal_of = [](const Case& c) {
    const std::vector<ConfigProblem> problems = validate(config_of(c));
    const Result<RunPlan> plan = make_plan(config_of(c), {});
    EXPECT_EQ(problems.size(), plan.ok() ? 0u : 1u) << c.name();
    if (plan.ok() || problems.empty()) return std::string();
    EXPECT_EQ(problems.front().message(), plan.error().message);
    return plan.error().message;
  };
  EXPECT_EQ(refusal_of({.dp = 6, .zero = 1, .hsdp_shard = 3, .sequences = 12}),
            "parallel.hsdp_shard = 3 must be a power of two, or all of parallel.dp = 6, where "
            "run.reproducible = \"layout\" sums along a binary tree over the ranks; try 1 or 2, 0 "
            "for all, or run.reproducible = \"fixed\"");
  EXPECT_EQ(refusal_of({.dp = 6, .zero = 2, .sequences = 12}),
            "parallel.dp = 6 must be a power of two where run.reproducible = \"layout\" with "
            "parallel.zero = 2 sums along a binary tree over the micro-batches; try 1 or 2, "
            "parallel.zero = 1, or run.reproducible = \"fixed\"");
  EXPECT_EQ(refusal_of({.dp = 2, .sequences = 12}),
            "batch.micro_sequences = 1 gives a rank 6 micro-batches of a step; run.reproducible = "
            "\"layout\" sums along a binary tree, so that they must be a power of two; try 3 or 6, "
            "another batch.global_sequences, or run.reproducible = \"fixed\"");
  for (const int hsdp : {1, 2, 6}) {
    expect_the_bits_of_one_rank({.dp = 6, .zero = 1, .hsdp_shard = hsdp, .sequences = 12});
  }
}

TEST(Parity, PrecisionsAndDropout) {
  for (const ComputeChoice compute :
       {ComputeChoice::Fp32, ComputeChoice::Bf16, ComputeChoice::Fp16}) {
    for (const int zero : {0, 1, 2, 3}) {
      expect_the_bits_of_one_rank({.dp = 2,
                                   .pp = 2,
                                   .schedule = ScheduleKind::ZbV,
                                   .zero = zero,
                                   .compute = compute,
                                   .dropout = 0.1});
    }
  }
}

// Tests every pair of values of two factors in few cases of 2 and 4 ranks.
Case case_of(const Selection& choice) {
  return {.dp = 1 << choice[0],
          .pp = 1 << choice[1],
          .schedule = kNamedSchedules[choice[2]],
          .zero = choice[3],
          .recompute = kRecomputes[choice[4]],
          .family = choice[5] == 0 ? "gpt2" : "llama",
          .compute = choice[6] == 0 ? ComputeChoice::Fp32 : ComputeChoice::Bf16,
          .kept = kAllKept[choice[10]],
          .tp = 1 << choice[7],
          .cp = 1 << choice[8],
          .offload = OffloadChoice(choice[9])};
}

TEST(ParityPairwise, CoversEveryPairOfValues) {
  const auto is_meant = [](const Selection& choice) {
    const Case c = case_of(choice);
    return (c.ranks() == 2 || c.ranks() == 4) && (c.zero == 0 || c.dp > 1) &&
           (c.pp > 1 || c.schedule == ScheduleKind::OneFOneB) &&
           (c.compute == ComputeChoice::Bf16 || c.kept < Kept::In10);
  };
  const std::vector<Selection> cover = pairwise_cover(
      all_choices(
          {3, 3, int(std::size(kNamedSchedules)), 4, 3, 2, 2, 2, 2, 3, int(std::size(kAllKept))},
          is_meant),
      [](const Selection& choice) { return is_possible(case_of(choice)); });
  EXPECT_GE(cover.size(), 30u);
  for (const Selection& choice : cover) expect_the_bits_of_one_rank(case_of(choice));
}

// With a clipping limit just below the norm, no rank's own part shows that clipping is needed, so
// ranks update and roll back. With a limit above the norm no rank rolls back.
TEST(Parity, PostValidatedStep) {
  const LayoutRun& plain = reference_of({});
  const double norm = *std::min_element(plain.grad_norms.begin(), plain.grad_norms.end());
  int64_t rollbacks_above = 0, rollbacks_below = 0;
  for (const double clip_norm : {0.97 * norm, 1e6, 1e-3}) {
    for (const Case& layout :
         {Case{.pp = 2}, Case{.dp = 2, .zero = 1}, Case{.dp = 2, .zero = 0},
          Case{.dp = 2, .pp = 2, .schedule = ScheduleKind::ZbH1, .zero = 2},
          Case{.dp = 2, .pp = 2, .schedule = ScheduleKind::ZbV, .zero = 3},
          Case{.dp = 2, .pp = 2, .schedule = ScheduleKind::ZbH2, .compute = ComputeChoice::Bf16},
          Case{.dp = 2, .zero = 1, .compute = ComputeChoice::Bf16, .kept = Kept::In8}}) {
      Case c = layout;
      c.clip_norm = clip_norm;
      c.post_validate = true;
      SCOPED_TRACE(c.name());
      const LayoutRun run = run_layout(plan_of(c));
      EXPECT_EQ(difference(run, reference_of(c)), "");
      EXPECT_EQ(run.differences, "");
      (clip_norm < norm ? rollbacks_below : rollbacks_above) += run.num_rollbacks;
    }
  }
  EXPECT_GT(rollbacks_below, 10);
  EXPECT_EQ(rollbacks_above, 0);
}

// Shows why memory.offload and optim.post_validate exclude each other: the copies in memory hold
// all state that is in the file, which is more than the file saves.
TEST(Parity, CopiesWouldTakeWhatOffloadGives) {
  for (const OffloadChoice offload : {OffloadChoice::Optimizer, OffloadChoice::All}) {
    for (const Case& layout :
         {Case{}, Case{.dp = 2, .zero = 1}, Case{.dp = 2, .zero = 3},
          Case{.pp = 2, .schedule = ScheduleKind::ZbH2, .compute = ComputeChoice::Bf16}}) {
      Case offloaded = layout, both = layout;
      offloaded.offload = both.offload = offload;
      both.post_validate = true;
      SCOPED_TRACE(both.name());
      const Result<RunPlan> refused = make_plan(config_of(both), {});
      ASSERT_FALSE(refused.ok());
      EXPECT_NE(refused.error().message.find("set optim.post_validate = false"), std::string::npos);
      const RunPlan plain = plan_of(layout), file = plan_of(offloaded);
      const std::vector<RankPlan> plain_ranks = rank_plans(plain), file_ranks = rank_plans(file);
      for (size_t r = 0; r < plain_ranks.size(); ++r) {
        int64_t copies = 0, state = 0;
        for (const ChunkTables& chunk : file_ranks[r].chunks) {
          copies += copies_bytes(chunk);
          state += chunk.tables.optimizer.bytes();
        }
        EXPECT_GT(copies, state);
        const int64_t with_copies = file_ranks[r].memory.arena_bytes + copies;
        if (offloaded.offload == OffloadChoice::Optimizer) {
          EXPECT_GT(with_copies, plain_ranks[r].memory.arena_bytes);
        }
      }
    }
  }
}

// With transfers in pieces beside the matmuls, the sums of two ranks have the same bits in every
// precision.
TEST(Parity, PiecesBesideMatmulsChangeNoBitOfTwoRanks) {
  for (const ComputeChoice compute :
       {ComputeChoice::Fp32, ComputeChoice::Bf16, ComputeChoice::Fp16}) {
    for (const char* family : {"gpt2", "moe"}) {
      for (const bool sequence : {false, true}) {
        Case c{.family = family, .compute = compute, .tp = 2, .sequence = sequence};
        c.is_wide = true;
        const LayoutRun whole = run_case(c);
        c.tp_overlap = true;
        SCOPED_TRACE(c.name());
        const LayoutRun pieces = run_case(c);
        EXPECT_EQ(difference(pieces, whole), "");
        EXPECT_EQ(pieces.differences, "");
      }
    }
  }
}

// The first forward passes of the next step run before Validate. They are repeated if it rolls
// back, or if an evaluation comes between. The clipping limit is the median norm, so some attempts
// hold and some are rolled back.
TEST(Parity, AStepBeginsBeforeTheLastIsValidated) {
  std::vector<double> norms = reference_of({}).grad_norms;
  std::sort(norms.begin(), norms.end());
  int64_t num_kept = 0, num_dropped = 0;
  for (const double clip_norm : {1e6, norms[norms.size() / 2] * 1.0001}) {
    for (const Case& layout :
         {Case{.pp = 2}, Case{.pp = 4, .schedule = ScheduleKind::ZbH2},
          Case{.dp = 2, .pp = 2, .zero = 3},
          Case{.dp = 2, .pp = 2, .schedule = ScheduleKind::ZbV, .zero = 3, .family = "llama"},
          Case{.pp = 2, .schedule = ScheduleKind::Interleaved, .family = "moe"},
          Case{.pp = 4, .schedule = ScheduleKind::Dualpipe, .compute = ComputeChoice::Bf16},
          Case{.pp = 2, .schedule = ScheduleKind::Gpipe, .tp = 2}, Case{.dp = 2}}) {
      Case c = layout;
      c.clip_norm = clip_norm;
      c.post_validate = true;
      SCOPED_TRACE(c.name());
      const RunPlan plan = plan_of(c);
      for (const bool runs_ahead : {true, false}) {
        const LayoutRun run = run_layout(plan, {.runs_ahead = runs_ahead});
        EXPECT_EQ(difference(run, reference_of(c)), "");
        EXPECT_EQ(run.differences, "");
        num_kept += run.num_begun_ahead - run.num_dropped_ahead;
        num_dropped += run.num_dropped_ahead;
        EXPECT_EQ(run.num_begun_ahead > 0, runs_ahead);
      }
    }
  }
  EXPECT_GT(num_kept, 50);
  EXPECT_GT(num_dropped, 10);
}

TEST(Parity, BucketsAndPrefetch) {
  for (const int64_t bucket_bytes : {5000, 1 << 20}) {
    for (const int zero : {0, 1, 2, 3}) {
      expect_the_bits_of_one_rank({.dp = 2, .zero = zero, .bucket_bytes = bucket_bytes});
      expect_the_bits_of_one_rank({.dp = 2,
                                   .pp = 2,
                                   .schedule = ScheduleKind::ZbV,
                                   .zero = zero,
                                   .recompute = Recompute::Full,
                                   .family = "llama",
                                   .bucket_bytes = bucket_bytes});
    }
  }
  for (const int prefetch : {0, 2, 9}) {
    for (const int zero : {2, 3}) {
      expect_the_bits_of_one_rank({.dp = 2,
                                   .pp = 2,
                                   .schedule = ScheduleKind::Interleaved,
                                   .zero = zero,
                                   .prefetch = prefetch});
    }
  }
}

TEST(Parity, OptimizerAndParametersInAFile) {
  for (const ComputeChoice compute : {ComputeChoice::Fp32, ComputeChoice::Bf16}) {
    for (const OffloadChoice offload : {OffloadChoice::Optimizer, OffloadChoice::All}) {
      for (const int zero : {0, 1, 2, 3}) {
        for (const int pp : {1, 2}) {
          expect_the_bits_of_one_rank({.dp = 2,
                                       .pp = pp,
                                       .schedule = ScheduleKind::ZbH1,
                                       .zero = zero,
                                       .compute = compute,
                                       .offload = offload,
                                       .prefetch = zero + pp - 1});
        }
      }
      expect_the_bits_of_one_rank({.compute = compute, .tp = 2, .offload = offload});
      expect_the_bits_of_one_rank({.family = "llama", .compute = compute, .offload = offload});
      expect_the_bits_of_one_rank(
          {.dp = 4, .zero = 2, .hsdp_shard = 2, .compute = compute, .offload = offload});
    }
  }
}

TEST(Parity, InFixedModeARunRepeatsItself) {
  for (const int zero : {0, 2, 3}) {
    RunConfig config =
        config_of({.dp = 2, .pp = 2, .schedule = ScheduleKind::Interleaved, .zero = zero});
    config.run.reproducible = Reproducible::Fixed;
    const Result<RunPlan> plan = make_plan(config, {});
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    const LayoutRun first = run_layout(*plan);
    EXPECT_EQ(difference(run_layout(*plan), first), "") << zero;
    EXPECT_EQ(first.differences, "");
  }
}

TEST(Parity, ACheckpointMovesBetweenLayouts) {
  const Case layouts[] = {
      {},
      {.dp = 4, .zero = 3},
      {.dp = 2, .pp = 2, .schedule = ScheduleKind::ZbV, .zero = 1},
      {.pp = 4, .schedule = ScheduleKind::OneFOneB},
      {.dp = 2,
       .pp = 2,
       .schedule = ScheduleKind::Interleaved,
       .zero = 2,
       .compute = ComputeChoice::Fp32},
      {.dp = 2, .zero = 1, .tp = 2},
      {.dp = 2, .zero = 2, .offload = OffloadChoice::Optimizer},
      {.dp = 2, .zero = 1, .offload = OffloadChoice::All},
      {.dp = 2, .pp = 2, .zero = 3, .offload = OffloadChoice::All},
  };
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / fmt::format("trireme-parity-{}", getpid());
  int number = 0;
  for (const Case& from : layouts) {
    const std::string folder = (root / std::to_string(number++)).string();
    run_layout(plan_of(from), {.end = 2, .save_to = folder});
    for (const Case& to : layouts) {
      SCOPED_TRACE(from.name() + " -> " + to.name());
      const LayoutRun rest =
          run_layout(plan_of(to), {.first = 2, .end = 5, .load_from = folder + "/step-000002"});
      const LayoutRun& whole = reference_of(to);
      if (from.tp != to.tp) {  // the first two steps had other bits
        EXPECT_NEAR(rest.losses.back(), whole.losses.back(), 2e-5 * whole.losses.back());
        continue;
      }
      EXPECT_EQ(rest.losses, std::vector(whole.losses.begin() + 2, whole.losses.end()));
      EXPECT_EQ(rest.weights, whole.weights);
    }
  }
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace trireme
