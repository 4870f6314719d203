#include "planner/search_layout.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/alternatives.h"
#include "planner/compile_plan.h"
#include "planner/layout_bound.h"
#include "planner/price_schedule.h"
#include "program/make_schedule.h"
#include "spec/run_config_validate.h"

namespace trireme {
namespace {

constexpr Recompute kRecomputes[] = {Recompute::None, Recompute::Selective, Recompute::Full};

RunConfig small_run(ModelFamily family, int64_t layers = 4) {
  RunConfig config;
  config.model.family = family;
  config.model.layers = layers;
  config.model.d_model = 32;
  config.model.heads = 4;
  config.model.d_ff = 64;
  config.model.experts = 4;
  config.model.vocab_size = 96;
  config.model.seq_len = 16;
  config.batch.global_sequences = 4;
  config.batch.micro_sequences = 1;
  return config;
}

// Four ranks on two nodes whose link is slow.
Hardware two_nodes() {
  Hardware hardware;
  hardware.fp32_flops = 1e11;
  hardware.bf16_flops = 2e11;
  hardware.memory_bytes_per_s = 1e11;
  hardware.ranks_per_node = 2;
  hardware.inside_node = {1e-6, 5e9};
  hardware.between_nodes = {3e-6, 1e9};
  return hardware;
}

struct Known {
  LayoutChoice layout;
  double step_s = 0.0;
  int64_t rank_bytes = 0;  // of the rank that needs most
};

int64_t most_arena_bytes(const RunPlan& plan) {
  int64_t most = 0;
  for (const RankPlan& rank : plan.ranks) most = std::max(most, rank.memory.arena_bytes);
  return most;
}

// Every layout that make_plan takes, by loops of the test's own and whole plans of all ranks.
std::vector<Known> brute_force(const RunConfig& config, const Hardware& hardware, int num_ranks) {
  std::vector<Known> all;
  const auto visit = [&](const LayoutChoice& layout) {
    const RunConfig own = with_layout(config, layout);
    if (!validate(own).empty()) return;
    const Result<RunPlan> plan = make_plan(own, {});
    if (!plan.ok()) return;
    all.push_back({layout, predicted_step_s(*plan, hardware), most_arena_bytes(*plan)});
  };
  const auto visit_mesh = [&](const Mesh& mesh) {
    for (const std::string& kind : schedule_kinds()) {
      if (mesh.pp == 1 && kind != "1f1b") continue;
      const bool is_interleaved = kind == "interleaved";
      for (int chunks = is_interleaved ? 2 : 0; chunks <= (is_interleaved ? 4 : 0); ++chunks) {
        for (int zero = 0; zero <= (mesh.dp > 1 ? 3 : 0); ++zero) {
          for (int64_t micro = 1; micro <= config.batch.global_sequences; ++micro) {
            for (const Recompute recompute : kRecomputes) {
              visit({mesh, zero, kind, chunks, micro, recompute});
            }
          }
        }
      }
    }
  };
  for (int tp = 1; tp <= num_ranks; ++tp) {
    for (int cp = 1; cp <= num_ranks; ++cp) {
      for (int pp = 1; pp <= num_ranks; ++pp) {
        for (int dp = 1; dp <= num_ranks; ++dp) {
          if (tp * cp * pp * dp != num_ranks) continue;
          for (int ep = 1; ep <= dp * cp; ++ep) visit_mesh({tp, cp, pp, dp, ep});
        }
      }
    }
  }
  return all;
}

struct Case {
  ModelFamily family;
  int64_t layers;
  int num_ranks;
};

// The fastest in any memory is the fastest of all that fit it, and more memory never makes it
// slower; what is found is what its own plan says.
TEST(SearchLayout, FindsWhatBruteForceFindsInEveryMemory) {
  for (const Case& c : {Case{ModelFamily::Gpt2, 4, 1}, Case{ModelFamily::Gpt2, 4, 4},
                        Case{ModelFamily::Llama, 5, 3}, Case{ModelFamily::Moe, 4, 2},
                        Case{ModelFamily::Moe, 2, 4}}) {
    RunConfig config = small_run(c.family, c.layers);
    const Hardware hardware = two_nodes();
    const std::vector<Known> all = brute_force(config, hardware, c.num_ranks);
    ASSERT_FALSE(all.empty());
    std::vector<int64_t> limits = {0};
    for (const Known& known : all) limits.push_back(known.rank_bytes);
    std::sort(limits.begin(), limits.end());
    limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
    const size_t stride = std::max<size_t>(1, limits.size() / 12);
    double before_s = std::numeric_limits<double>::infinity();
    for (size_t i = 1; i < limits.size(); i += stride) {
      config.memory.limit_bytes = limits[i];
      double best_s = std::numeric_limits<double>::infinity();
      for (const Known& known : all) {
        if (known.rank_bytes <= limits[i]) best_s = std::min(best_s, known.step_s);
      }
      const Result<LayoutSearch> search = search_layout(config, {}, hardware, c.num_ranks, 3);
      ASSERT_TRUE(search.ok()) << search.error().message;
      const PricedLayout& best = search->best.front();
      EXPECT_DOUBLE_EQ(best.time.step, best_s)
          << describe(best.layout) << " in " << limits[i] << " bytes";
      EXPECT_LE(best.time.step, before_s);
      before_s = best.time.step;
      for (const PricedLayout& priced : search->best) {
        const Result<RunPlan> plan = make_plan(with_layout(config, priced.layout), {});
        ASSERT_TRUE(plan.ok()) << plan.error().message;
        EXPECT_DOUBLE_EQ(predicted_step_s(*plan, hardware), priced.time.step);
      }
    }
    config.memory.limit_bytes = limits[1] - 1;
    const Result<LayoutSearch> none = search_layout(config, {}, hardware, c.num_ranks, 3);
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.error().kind, ErrorKind::Infeasible);
    EXPECT_NE(none.error().message.find("memory"), std::string::npos) << none.error().message;
  }
}

TEST(SearchLayout, FewRanksNeedAboutWhatTheNeediestOfAllNeeds) {
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Moe}) {
    for (const Mesh& mesh : meshes_of(12, *resolve_model(small_run(family).model, 0))) {
      for (int zero = 0; zero <= (mesh.dp > 1 ? 3 : 0); ++zero) {
        RunConfig config = with_layout(small_run(family), {.mesh = mesh, .zero = zero});
        config.model.vocab_size = 1001;  // no part is as large as another
        config.model.d_model = 48;
        config.batch.global_sequences = 12;
        Result<RunPlan> few = start_plan(config, {});
        if (!few.ok() || !compile_representatives(*few).ok()) continue;
        const Result<RunPlan> all = make_plan(config, {});
        ASSERT_TRUE(all.ok()) << all.error().message;
        EXPECT_LE(most_arena_bytes(*few), most_arena_bytes(*all));
        EXPECT_GE(most_arena_bytes(*few), most_arena_bytes(*all) - most_arena_bytes(*all) / 64)
            << "zero " << zero << ", tp " << mesh.tp << ", cp " << mesh.cp << ", pp " << mesh.pp
            << ", dp " << mesh.dp << ", ep " << mesh.ep;
      }
    }
  }
}

TEST(SearchLayout, NoLayoutIsBetterThanItsBounds) {
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Moe}) {
    RunConfig config = small_run(family);
    config.model.d_model = 256;  // several blocks of the norm in every matrix
    config.model.d_ff = 1024;
    const Hardware hardware = two_nodes();
    const Result<RunPlan> started = start_plan(config, {});
    ASSERT_TRUE(started.ok()) << started.error().message;
    LayoutBounds bounds(*started, hardware);
    PlanParts parts;
    CollectiveBytes collectives;
    for (const Known& known : brute_force(config, hardware, 4)) {
      const Result<double> step_s = bounds.step_s(known.layout);
      ASSERT_TRUE(step_s.ok()) << step_s.error().message;
      EXPECT_LE(*step_s, known.step_s) << describe(known.layout);
      EXPECT_LE(*bounds.rank_bytes(known.layout), known.rank_bytes) << describe(known.layout);
      // Closer with the simulated schedule, and bounds still.
      Result<RunPlan> plan = start_plan(with_layout(config, known.layout), {});
      ASSERT_TRUE(plan.ok() && outline_pipeline(*plan, parts).ok());
      const double layer_bytes = bounds.layer_saved_bytes(known.layout);
      const Result<Simulation> simulation =
          price_schedule(*plan, hardware, collectives, layer_bytes).simulation;
      ASSERT_TRUE(simulation.ok()) << simulation.error().message;
      std::vector<double> saved_bytes;
      for (const RankSimulation& rank : simulation->ranks) saved_bytes.push_back(rank.peak_bytes);
      EXPECT_LE(*bounds.rank_bytes(known.layout, saved_bytes), known.rank_bytes)
          << describe(known.layout);
      EXPECT_LE(simulation->makespan_s * (1.0 - 1e-9) + *bounds.after_schedule_s(known.layout),
                known.step_s)
          << describe(known.layout);
    }
  }
}

// A host's memory is shared by its ranks: what is found there is never refused.
TEST(SearchLayout, WhatItFindsOnAHostFitsTheHost) {
  const RunConfig config = small_run(ModelFamily::Gpt2);
  for (int64_t bytes = 1 << 20; bytes <= 64 << 20; bytes *= 2) {
    const HostFacts host{bytes, 4, 0, 0};
    const Result<LayoutSearch> search = search_layout(config, host, two_nodes(), 4, 3);
    if (!search.ok()) continue;
    for (const PricedLayout& priced : search->best) {
      const Result<RunPlan> plan = make_plan(with_layout(config, priced.layout), host);
      EXPECT_TRUE(plan.ok()) << plan.error().message;
    }
  }
}

}  // namespace
}  // namespace trireme
