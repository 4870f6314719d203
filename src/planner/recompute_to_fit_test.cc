#include "planner/recompute_to_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "compile/compile_plan.h"
#include "compile/stage_cost.h"
#include "planner/compile_to_fit.h"
#include "planner/make_plan.h"

namespace trireme {
namespace {

RunConfig run_to_fit(ModelFamily family) {
  RunConfig config;
  config.model.family = family;
  config.model.layers = 4;
  config.model.d_model = 32;
  config.model.heads = 4;
  config.model.d_ff = 64;
  config.model.experts = family == ModelFamily::Moe ? 4 : 0;
  config.model.vocab_size = 96;
  config.model.seq_len = 16;
  config.batch.global_sequences = 8;
  config.batch.micro_sequences = 1;
  config.memory.recompute = Recompute::Fit;
  return config;
}

std::vector<RunConfig> layouts_to_fit() {
  std::vector<RunConfig> all;
  const auto add = [&](ModelFamily family, auto change) {
    all.push_back(run_to_fit(family));
    change(all.back());
  };
  add(ModelFamily::Gpt2, [](RunConfig& c) { c.batch.micro_sequences = 4; });
  add(ModelFamily::Gpt2, [](RunConfig& c) {
    c.model.layers = 5;  // the stages differ
    c.parallel.pp = 2;
    c.parallel.dp = 2;
    c.parallel.zero = 3;
  });
  add(ModelFamily::Llama, [](RunConfig& c) {
    c.parallel.tp = 2;
    c.parallel.sequence = true;
    c.parallel.pp = 2;
    c.parallel.schedule = ScheduleKind::ZbH1;
  });
  add(ModelFamily::Llama, [](RunConfig& c) {
    c.model.heads = c.model.kv_heads = 6;
    c.model.d_model = 48;
    c.model.d_ff = 96;
    c.parallel.tp = 3;  // the ranks have unequal parts of the tokens
    c.parallel.sequence = true;
  });
  for (const char* stage_tp : {"1,2", "2,1"}) {  // the places have other degrees than parallel.tp
    add(ModelFamily::Llama, [&](RunConfig& c) {
      c.model.tied_head = false;
      c.parallel.pp = 2;
      c.parallel.tp = 2;
      c.parallel.dp = 2;
      c.parallel.stage_tp = stage_tp;
      c.parallel.stage_dp = "2,1";
      c.parallel.order = "tp,cp,dp,pp";
    });
  }
  add(ModelFamily::Llama, [](RunConfig& c) {
    c.parallel.pp = 2;
    c.parallel.schedule = ScheduleKind::Dualpipe;
    c.parallel.cp = 2;
  });
  add(ModelFamily::Moe, [](RunConfig& c) {
    c.parallel.dp = 2;
    c.parallel.ep = 2;
    c.parallel.pp = 2;
    c.parallel.schedule = ScheduleKind::Interleaved;
    c.memory.offload = OffloadChoice::Optimizer;
    c.memory.offload_buffer_bytes = 4096;
  });
  add(ModelFamily::Moe, [](RunConfig& c) {
    c.model.dense_layers = 1;  // the first stage has layers of two kinds
    c.model.dense_d_ff = 80;
    c.parallel.pp = 2;
    c.batch.micro_sequences = 2;
  });
  add(ModelFamily::Moe, [](RunConfig& c) {
    c.model.shared_experts = 1;
    c.model.layer_scale = 0.1;
    c.parallel.pp = 2;
    c.parallel.schedule = ScheduleKind::Auto;
  });
  return all;
}

RunPlan compiled(const RunConfig& config, uint64_t again) {
  RunPlan plan = start_plan(config, {}).value();
  plan.shape.again = again;
  const Status done = compile_plan(plan);
  EXPECT_TRUE(done.ok()) << done.error().message;
  return plan;
}

// The plan of no set says to the byte what the plan of every other set needs.
TEST(RecomputeToFit, TheBytesOfEverySetAreThoseOfItsPlan) {
  for (const RunConfig& config : layouts_to_fit()) {
    const RunPlan plan = compiled(config, 0);
    RecomputeChoice choice(plan, nominal_hardware());
    const uint64_t step = choice.all_again() / 16 | 1;
    for (uint64_t again = 0; again <= choice.all_again(); again += step) {
      const RunPlan own = compiled(config, again);
      const NeededBytes needed = choice.needed(plan, again);
      EXPECT_EQ(needed.of_rank, own.largest().memory.arena_bytes) << again;
      EXPECT_EQ(needed.of_all, own.arena_bytes()) << again;
    }
  }
}

struct PlannedSet {
  double seconds = 0.0;
  int64_t rank_bytes = 0;
};

// For every limit the plan computes the cheapest of all sets again whose own plan fits, and it is
// refused exactly if none fits. Plans of all sets are compiled to know that.
TEST(RecomputeToFit, TheSetIsTheCheapestOfAllForEveryLimit) {
  for (RunConfig config : layouts_to_fit()) {
    const RunPlan first = compiled(config, 0);
    const AgainPrice price(first, nominal_hardware());
    if (price.all_again() >= 256 || config.parallel.schedule == ScheduleKind::Auto) continue;
    std::vector<PlannedSet> sets;
    for (uint64_t again = 0; again <= price.all_again(); ++again) {
      sets.push_back(
          {price.seconds_per_token(again), compiled(config, again).largest().memory.arena_bytes});
    }
    std::vector<int64_t> limits;
    for (const PlannedSet& set : sets) limits.push_back(set.rank_bytes);
    std::sort(limits.begin(), limits.end());
    limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
    config.memory.limit_bytes = limits.front() - 1;
    const Result<RunPlan> refused = make_plan(config, {});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::Infeasible);
    const size_t stride = limits.size() / 12 + 1;
    for (size_t i = 0; i < limits.size(); i += stride) {
      config.memory.limit_bytes = limits[i];
      double cheapest = std::numeric_limits<double>::infinity();
      for (const PlannedSet& set : sets) {
        if (set.rank_bytes <= limits[i]) cheapest = std::min(cheapest, set.seconds);
      }
      const Result<RunPlan> plan = make_plan(config, {});
      ASSERT_TRUE(plan.ok()) << plan.error().message;
      EXPECT_EQ(price.seconds_per_token(plan->shape.again), cheapest);
      EXPECT_LE(plan->largest().memory.arena_bytes, limits[i]);
    }
  }
}

// With enough memory nothing is computed again: the plan is that of "none".
TEST(RecomputeToFit, WithAmpleMemoryThePlanIsThatOfNone) {
  for (RunConfig config : layouts_to_fit()) {
    const RunPlan fit = make_plan(config, {.memory_bytes = int64_t{1} << 40}).value();
    config.memory.recompute = Recompute::None;
    const RunPlan none = make_plan(config, {}).value();
    EXPECT_EQ(fit.shape.again, 0u);
    ASSERT_EQ(fit.classes.size(), none.classes.size());
    for (size_t i = 0; i < fit.classes.size(); ++i) {
      EXPECT_EQ(fit.classes[i].memory.arena_bytes, none.classes[i].memory.arena_bytes);
      EXPECT_EQ(fit.classes[i].memory.peak_bytes, none.classes[i].memory.peak_bytes);
    }
    for (size_t pp = 0; pp < fit.pipeline.size(); ++pp) {
      EXPECT_EQ(to_string(fit.pipeline[pp].program, 2), to_string(none.pipeline[pp].program, 2));
    }
  }
}

// All ranks of a host share its memory.
TEST(RecomputeToFit, OnAHostAllRanksFitTogether) {
  for (const RunConfig& config : layouts_to_fit()) {
    const RunPlan none = compiled(config, 0);
    const RunPlan all = compiled(config, kEverythingAgain);
    const int64_t limit = (none.arena_bytes() + all.arena_bytes()) / 2;
    if (all.arena_bytes() >= none.arena_bytes()) continue;
    const Result<RunPlan> plan = make_plan(config, {.memory_bytes = limit});
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_GT(plan->shape.again, 0u);
    EXPECT_LE(plan->arena_bytes(), limit);
  }
}

}  // namespace
}  // namespace trireme
