#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "compile/compile_plan.h"
#include "planner/compile_to_fit.h"
#include "planner/layout_bound.h"
#include "planner/make_plan.h"
#include "planner/search_layout.h"
#include "predict/price_schedule.h"
#include "program/make_schedule.h"
#include "schema/run_config_validate.h"

// Plans every layout of a small space by loops of its own, to compare the search with.

namespace trireme {

struct PlannedLayout {
  LayoutChoice layout;
  double step_s = 0.0;
  int64_t rank_bytes = 0;  // of the rank that needs the most
  int64_t all_bytes = 0;
};

inline int64_t most_arena_bytes(const RunPlan& plan) { return plan.largest().memory.arena_bytes; }

inline void expect_at_most(const NeededBytes& bound, const PlannedLayout& planned) {
  EXPECT_LE(bound.of_rank, planned.rank_bytes);
  EXPECT_LE(bound.of_all, planned.all_bytes);
  EXPECT_GE(bound.of_all, bound.of_rank);
}

// The exchanges of a mesh that the rules of a configuration take.
inline std::vector<LayerExchange> allowed_exchanges(const RunConfig& config, const Mesh& mesh) {
  std::vector<LayerExchange> allowed = exchanges_of(mesh);
  std::erase_if(allowed, [&](const LayerExchange& exchange) {
    return !validate(with_layout(config, {.mesh = mesh, .exchange = exchange})).empty();
  });
  return allowed;
}

// One bound for all exchanges and orders of a layout's mesh is not above what any of their plans
// takes.
inline void expect_within_common_bounds(const PlannedLayout& planned, LayoutBounds& bounds,
                                        std::vector<LayerExchange> exchanges,
                                        const std::vector<MeshOrder>& orders) {
  bounds.take_any_of(std::move(exchanges), orders);
  EXPECT_LE(*bounds.step_s(planned.layout), planned.step_s);
  EXPECT_LE(bounds.even_step_s(planned.layout), *bounds.step_s(planned.layout));
  expect_at_most(bounds.even_bytes(planned.layout), planned);
  expect_at_most(*bounds.bytes(planned.layout), planned);
  bounds.take_any_of({}, {});
}

// No lower bound is above what the plan takes, and neither are the closer bounds of its schedule.
inline void expect_within_bounds(const PlannedLayout& planned, LayoutBounds& bounds,
                                 const Simulation& simulation) {
  SCOPED_TRACE(describe(planned.layout));
  const Result<double> step_s = bounds.step_s(planned.layout);
  ASSERT_TRUE(step_s.ok()) << step_s.error().message;
  EXPECT_LE(*step_s, planned.step_s);
  expect_at_most(bounds.even_bytes(planned.layout), planned);
  expect_at_most(*bounds.bytes(planned.layout), planned);
  std::vector<double> saved_bytes;
  for (const RankSimulation& rank : simulation.ranks) saved_bytes.push_back(rank.peak_bytes);
  expect_at_most(*bounds.bytes(planned.layout, saved_bytes), planned);
  EXPECT_LE(simulation.makespan_s * (1.0 - 1e-9) + *bounds.after_schedule_s(planned.layout),
            planned.step_s);
}

// Every exchange and value of hsdp_shard for a layout, found by loops of the test's own.
inline std::vector<LayoutChoice> with_exchanges(LayoutChoice layout, int ranks_per_node) {
  std::vector<LayoutChoice> all;
  for (int bits = 0; bits < 8; ++bits) {
    const bool sequence = (bits & 1) != 0, overlap = (bits & 2) != 0, to_all = (bits & 4) != 0;
    if (layout.mesh.tp == 1 && (sequence || overlap)) continue;
    if (layout.mesh.cp == 1 && to_all) continue;
    layout.exchange = {sequence, overlap,
                       to_all ? ContextExchange::AllToAll : ContextExchange::Ring};
    layout.hsdp_shard = 0;
    all.push_back(layout);
    const Mesh& mesh = layout.mesh;
    const bool is_across = mesh.dp > ranks_per_node && mesh.tp * mesh.cp * mesh.pp == 1;
    if (layout.zero == 0 || !is_across || mesh.dp % ranks_per_node != 0) continue;
    layout.hsdp_shard = ranks_per_node;
    all.push_back(layout);
  }
  return all;
}

// Every way of a space to run a layout, found by loops of the test's own.
inline std::vector<LayoutChoice> in_every_way(LayoutChoice layout, const LayoutSpace& space) {
  std::vector<LayoutChoice> all;
  const bool has_transfers = layout.mesh.dp > 1;
  for (const MeshOrder& order : space.orders) {
    layout.mesh.order = order;
    for (const OffloadChoice offload : space.offloads) {
      for (const int64_t bucket_bytes : space.bucket_bytes) {
        if (!has_transfers && bucket_bytes != space.bucket_bytes.front()) continue;
        for (const int prefetch : space.prefetches) {
          const bool waits = has_transfers && layout.zero >= 2;
          if (!waits && prefetch != space.prefetches.front()) continue;
          layout.transfers = {offload, bucket_bytes, prefetch};
          all.push_back(layout);
        }
      }
    }
  }
  return all;
}

// The layouts of some meshes, as they are configured but for these keys.
inline LayoutSpace configured_space(const RunConfig& config, std::vector<Mesh> meshes) {
  const LayoutTransfers configured = transfers_of(config);
  return {.meshes = std::move(meshes),
          .offloads = {configured.offload},
          .bucket_bytes = {configured.bucket_bytes},
          .prefetches = {configured.prefetch}};
}

inline LayoutSpace configured_space(const RunConfig& config, int num_ranks) {
  std::vector<Mesh> meshes;
  for (int tp = 1; tp <= num_ranks; ++tp) {
    for (int cp = 1; cp <= num_ranks; ++cp) {
      for (int pp = 1; pp <= num_ranks; ++pp) {
        for (int dp = 1; dp <= num_ranks; ++dp) {
          if (tp * cp * pp * dp != num_ranks) continue;
          for (int ep = 1; ep <= dp * cp; ++ep) meshes.push_back({tp, cp, pp, dp, ep});
        }
      }
    }
  }
  return configured_space(config, std::move(meshes));
}

// Returns every layout of a space that make_plan accepts, in every way, found by loops of the
// test's own and whole plans of all ranks. Checks the bounds of each.
inline std::vector<PlannedLayout> brute_force(const RunConfig& config, const Hardware& hardware,
                                              const LayoutSpace& space) {
  std::vector<PlannedLayout> all;
  LayoutBounds bounds(start_plan(config, {}).value(), hardware);
  bounds.take_buckets_up_to(
      *std::max_element(space.bucket_bytes.begin(), space.bucket_bytes.end()));
  PlanParts parts;
  CollectiveBytes collectives(CommCost{}, hardware.nodes());
  const auto visit = [&](const LayoutChoice& layout) {
    const RunConfig own = with_layout(config, layout);
    if (!validate(own).empty()) return;
    // As make_plan, but without the remedies of a refusal.
    Result<RunPlan> plan = start_plan(own, {});
    const int64_t limit = own.memory.limit_bytes;
    if (!plan.ok() || !compile_to_fit(*plan, limit).ok()) return;
    if (limit > 0 && bytes_to_fit(*plan) > limit) return;
    all.push_back(
        {layout, predicted_step_s(*plan, hardware), most_arena_bytes(*plan), plan->arena_bytes()});
    Result<RunPlan> outlined = start_plan(own, {});
    ASSERT_TRUE(outlined.ok() && outline_pipeline(*outlined, parts).ok()) << describe(layout);
    const PricedSchedule priced =
        price_schedule(*outlined, price_places(*outlined, hardware), hardware, collectives,
                       bounds.layer_saved_bytes(layout));
    ASSERT_TRUE(priced.simulation.ok()) << priced.simulation.error().message;
    expect_within_bounds(all.back(), bounds, *priced.simulation);
    if (layout.recompute != Recompute::Fit) {
      expect_within_common_bounds(all.back(), bounds, allowed_exchanges(config, layout.mesh),
                                  space.orders);
    }
  };
  const auto visit_ways = [&](const LayoutChoice& layout) {
    for (const LayoutChoice& exchanged : with_exchanges(layout, int(hardware.nodes().size_at(0)))) {
      for (const LayoutChoice& way : in_every_way(exchanged, space)) visit(way);
    }
  };
  for (const Mesh& mesh : space.meshes) {
    for (const ScheduleKind kind : kNamedSchedules) {
      if (mesh.pp == 1 && kind != ScheduleKind::OneFOneB) continue;
      const bool is_interleaved = traits_of(kind).chunks == ChunkRule::Any;
      for (int chunks = is_interleaved ? 2 : 0; chunks <= (is_interleaved ? 4 : 0); ++chunks) {
        for (const int zero : space.zero_levels) {
          if (zero > 0 && mesh.dp == 1) continue;
          for (int64_t micro = 1; micro <= config.batch.global_sequences; ++micro) {
            for (const Recompute recompute : recomputes_of(config.memory.recompute)) {
              visit_ways({mesh, zero, kind, chunks, micro, recompute});
            }
          }
        }
      }
    }
  }
  return all;
}
inline std::vector<PlannedLayout> brute_force(const RunConfig& config, const Hardware& hardware,
                                              int num_ranks) {
  return brute_force(config, hardware, configured_space(config, num_ranks));
}

// The limits at which a larger memory allows a faster layout, in rising order.
inline std::vector<int64_t> corners_of(std::vector<PlannedLayout> all) {
  std::sort(all.begin(), all.end(), [](const PlannedLayout& a, const PlannedLayout& b) {
    return std::tie(a.rank_bytes, a.step_s) < std::tie(b.rank_bytes, b.step_s);
  });
  std::vector<int64_t> corners;
  double best_s = std::numeric_limits<double>::infinity();
  for (const PlannedLayout& planned : all) {
    if (planned.step_s >= best_s) continue;
    best_s = planned.step_s;
    corners.push_back(planned.rank_bytes);
  }
  return corners;
}

// The layout found for a limit is the fastest of all that fit it, and its numbers are those of its
// own plan.
inline void expect_found(RunConfig config, const Hardware& hardware, const LayoutSpace& space,
                         int64_t limit_bytes, const std::vector<PlannedLayout>& all) {
  config.memory.limit_bytes = limit_bytes;
  double best_s = std::numeric_limits<double>::infinity();
  for (const PlannedLayout& planned : all) {
    if (planned.rank_bytes <= limit_bytes) best_s = std::min(best_s, planned.step_s);
  }
  const Result<LayoutSearch> search = search_layout(config, {}, hardware, space, 3);
  ASSERT_TRUE(search.ok()) << search.error().message;
  EXPECT_DOUBLE_EQ(search->best.front().time.step, best_s)
      << describe(search->best.front().layout) << " in " << limit_bytes << " bytes";
  for (const PricedLayout& priced : search->best) {
    const auto planned = std::find_if(all.begin(), all.end(), [&](const PlannedLayout& other) {
      return other.layout == priced.layout;
    });
    ASSERT_NE(planned, all.end()) << describe(priced.layout);
    EXPECT_DOUBLE_EQ(planned->step_s, priced.time.step) << describe(priced.layout);
    EXPECT_LE(planned->rank_bytes, limit_bytes) << describe(priced.layout);
  }
}

}  // namespace trireme
