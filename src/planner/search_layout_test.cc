#include "planner/search_layout.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/units.h"
#include "compile/compile_plan.h"
#include "planner/alternatives.h"
#include "planner/compile_to_fit.h"
#include "planner/layout_bound.h"
#include "planner/make_plan.h"
#include "planner/small_run_fixture.h"
#include "predict/price_schedule.h"
#include "program/make_schedule.h"
#include "schema/run_config_validate.h"

namespace trireme {
namespace {

struct PlannedLayout {
  LayoutChoice layout;
  double step_s = 0.0;
  int64_t rank_bytes = 0;  // of the rank that needs the most
  int64_t all_bytes = 0;
};

int64_t most_arena_bytes(const RunPlan& plan) { return plan.largest().memory.arena_bytes; }

void expect_at_most(const NeededBytes& bound, const PlannedLayout& planned) {
  EXPECT_LE(bound.of_rank, planned.rank_bytes);
  EXPECT_LE(bound.of_all, planned.all_bytes);
  EXPECT_GE(bound.of_all, bound.of_rank);
}

// The exchanges of a mesh that the rules of a configuration take.
std::vector<LayerExchange> allowed_exchanges(const RunConfig& config, const Mesh& mesh) {
  std::vector<LayerExchange> allowed = exchanges_of(mesh);
  std::erase_if(allowed, [&](const LayerExchange& exchange) {
    return !validate(with_layout(config, {.mesh = mesh, .exchange = exchange})).empty();
  });
  return allowed;
}

// One bound for all exchanges and orders of a layout's mesh is not above what any of their plans
// takes.
void expect_within_common_bounds(const PlannedLayout& planned, LayoutBounds& bounds,
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
void expect_within_bounds(const PlannedLayout& planned, LayoutBounds& bounds,
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
std::vector<LayoutChoice> with_exchanges(LayoutChoice layout, int ranks_per_node) {
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
std::vector<LayoutChoice> in_every_way(LayoutChoice layout, const LayoutSpace& space) {
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
LayoutSpace configured_space(const RunConfig& config, std::vector<Mesh> meshes) {
  const LayoutTransfers configured = transfers_of(config);
  return {.meshes = std::move(meshes),
          .offloads = {configured.offload},
          .bucket_bytes = {configured.bucket_bytes},
          .prefetches = {configured.prefetch}};
}

LayoutSpace configured_space(const RunConfig& config, int num_ranks) {
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
std::vector<PlannedLayout> brute_force(const RunConfig& config, const Hardware& hardware,
                                       const LayoutSpace& space) {
  std::vector<PlannedLayout> all;
  LayoutBounds bounds(start_plan(config, {}).value(), hardware);
  bounds.take_buckets_up_to(
      *std::max_element(space.bucket_bytes.begin(), space.bucket_bytes.end()));
  PlanParts parts;
  CollectiveBytes collectives(CommCost{});
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
    for (const LayoutChoice& exchanged : with_exchanges(layout, hardware.ranks_per_node())) {
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
std::vector<PlannedLayout> brute_force(const RunConfig& config, const Hardware& hardware,
                                       int num_ranks) {
  return brute_force(config, hardware, configured_space(config, num_ranks));
}

struct Case {
  ModelFamily family;
  int64_t layers;
  int num_ranks;
  int64_t dense_layers = 0;
  bool is_mixed = false;
};

// The ranks behind the first two have a device that multiplies faster and has a slower memory, so
// that none of the two devices is faster at everything.
Hardware with_other_device(Hardware hardware) {
  OtherDevice other{.label = "other", .first_rank = 2, .device = hardware};
  other.device.bf16_flops *= 1.7;
  other.device.memory_bytes_per_s *= 0.4;
  hardware.others.push_back(std::move(other));
  return hardware;
}

// The limits at which a larger memory allows a faster layout, in rising order.
std::vector<int64_t> corners_of(std::vector<PlannedLayout> all) {
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
void expect_found(RunConfig config, const Hardware& hardware, const LayoutSpace& space,
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

// Brute force finds the same layout for every limit between two of these corners, so each corner is
// tested exactly and with one byte less. Every layout is planned once, and its bounds are checked.
TEST(SearchLayout, FindsWhatBruteForceFindsInEveryMemoryAndKeepsItsBounds) {
  for (const Case& c : {Case{ModelFamily::Gpt2, 4, 1}, Case{ModelFamily::Gpt2, 4, 4},
                        Case{ModelFamily::Llama, 5, 3}, Case{ModelFamily::Moe, 2, 4},
                        Case{ModelFamily::Moe, 4, 2, 1}, Case{ModelFamily::Llama, 5, 3, 0, true}}) {
    RunConfig config = small_run(c.family, c.layers);
    config.model.dense_layers = c.dense_layers;
    config.model.d_model = 256;  // gives every matrix several blocks of the norm
    config.model.d_ff = 1024;
    const Hardware hardware = c.is_mixed ? with_other_device(two_nodes()) : two_nodes();
    const LayoutSpace space = configured_space(config, c.num_ranks);
    const std::vector<PlannedLayout> all = brute_force(config, hardware, space);
    ASSERT_FALSE(all.empty());
    const std::vector<int64_t> corners = corners_of(all);
    const size_t stride = std::max<size_t>(1, corners.size() / 3);
    for (size_t i = 0; i < corners.size(); i += stride) {
      if (i > 0) expect_found(config, hardware, space, corners[i] - 1, all);
      expect_found(config, hardware, space, corners[i], all);
    }
    config.memory.limit_bytes = corners.front() - 1;
    const Result<LayoutSearch> none = search_layout(config, {}, hardware, space, 3);
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.error().kind, ErrorKind::Infeasible);
    EXPECT_NE(none.error().message.find("memory"), std::string::npos) << none.error().message;
  }
}

// Orders, buckets, prefetch and memory.offload on a mesh that crosses the nodes.
LayoutSpace space_of_ways(const RunConfig& config) {
  using enum MeshAxis;
  LayoutSpace space = configured_space(config, {{.pp = 2, .dp = 2}});
  space.zero_levels = {3};
  space.orders = {kUsualOrder, {Tp, Cp, Dp, Pp}};
  space.offloads = {OffloadChoice::None, OffloadChoice::Optimizer, OffloadChoice::All};
  space.bucket_bytes = {0, 120'000};  // a layer has 51,000 bytes of gradients
  space.prefetches = {1, 2};
  return space;
}

Hardware two_nodes_with_disks() {
  Hardware hardware = two_nodes();
  hardware.offload_bytes_per_s = 1e9;
  hardware.overlap_share = 0.2;
  return hardware;
}

// Each layout is found in the fastest of all its ways, in every memory. The largest needs no file,
// and the ranks of dp share a node.
TEST(SearchLayout, FindsTheFastestWayOfEveryLayoutInEveryMemory) {
  RunConfig config = small_run(ModelFamily::Gpt2, 4);
  config.batch.global_sequences = 2;
  config.memory.offload_buffer_bytes = 1 << 14;
  const Hardware hardware = two_nodes_with_disks();
  const LayoutSpace space = space_of_ways(config);
  const std::vector<PlannedLayout> all = brute_force(config, hardware, space);
  const std::vector<int64_t> corners = corners_of(all);
  const size_t stride = std::max<size_t>(1, corners.size() / 4);
  for (size_t i = 0; i < corners.size(); i += stride) {
    expect_found(config, hardware, space, corners[i], all);
  }
  const auto chosen = [&](int64_t limit_bytes) {
    config.memory.limit_bytes = limit_bytes;
    return search_layout(config, {}, hardware, space, 1).value().best.front().layout;
  };
  EXPECT_NE(chosen(corners.front()).transfers->offload, OffloadChoice::None);
  EXPECT_EQ(chosen(corners.back()).transfers->offload, OffloadChoice::None);
  EXPECT_EQ(chosen(corners.back()).mesh.order, space.orders.back());
}

// On a disk so slow that its time decides, brute_force checks every bound of every ZeRO level and
// schedule with a file. Most of a step on one pipeline stage is then in its bound.
TEST(SearchLayout, BoundsKnowTheTimeOfTheFile) {
  RunConfig config = small_run(ModelFamily::Gpt2, 4);
  config.batch.global_sequences = 2;
  config.model.d_model = 256;
  config.model.d_ff = 1024;
  config.memory.offload_buffer_bytes = 1 << 20;
  Hardware hardware = two_nodes_with_disks();
  hardware.offload_bytes_per_s = 1e7;
  LayoutSpace space =
      configured_space(config, {{.dp = 1}, {.dp = 2}, {.dp = 4}, {.pp = 2, .dp = 2}});
  space.offloads = {OffloadChoice::Optimizer, OffloadChoice::All};
  const std::vector<PlannedLayout> all = brute_force(config, hardware, space);
  LayoutBounds bounds(start_plan(config, {}).value(), hardware);
  for (const PlannedLayout& planned : all) {
    if (planned.layout.mesh.pp > 1) continue;
    EXPECT_GT(*bounds.step_s(planned.layout), 0.5 * planned.step_s) << describe(planned.layout);
  }
}

// For every layout within reach the front has one that is as fast and hardly larger, and none of
// its own layouts is beaten in both.
TEST(SearchLayout, NothingBeatsTheLayoutsOfTheFront) {
  for (const Case& c : {Case{ModelFamily::Gpt2, 4, 4}, Case{ModelFamily::Llama, 5, 3}}) {
    RunConfig config = small_run(c.family, c.layers);
    config.model.d_model = 128;
    config.model.d_ff = 512;
    const LayoutSpace space = configured_space(config, c.num_ranks);
    const std::vector<PlannedLayout> all = brute_force(config, two_nodes(), space);
    const Result<LayoutSearch> search = search_front(config, {}, two_nodes(), space);
    ASSERT_TRUE(search.ok()) << search.error().message;
    const std::vector<PricedLayout>& front = search->best;
    for (size_t i = 1; i < front.size(); ++i) {
      EXPECT_LT(front[i - 1].time.step, front[i].time.step);
      EXPECT_GT(front[i - 1].arena_bytes, front[i].arena_bytes);
    }
    for (const PlannedLayout& planned : all) {
      EXPECT_GE(planned.step_s, front.front().time.step * (1.0 - 1e-9));
      if (planned.step_s > kFrontSlowest * front.front().time.step) continue;
      EXPECT_TRUE(std::any_of(front.begin(), front.end(), [&](const PricedLayout& priced) {
        return priced.time.step <= planned.step_s * (1.0 + 1e-9) &&
               double(priced.arena_bytes) <= (1.0 + kFrontStep) * double(planned.rank_bytes);
      })) << describe(planned.layout);
    }
  }
}

TEST(SearchLayout, WithFitEveryLayoutHasTheCheapestValuesForItsMemory) {
  for (const Case& c : {Case{ModelFamily::Gpt2, 4, 1}, Case{ModelFamily::Llama, 5, 2},
                        Case{ModelFamily::Moe, 2, 2}}) {
    RunConfig config = small_run(c.family, c.layers);
    config.model.seq_len = 64;  // so that activations count
    const Hardware hardware = two_nodes();
    int64_t least = std::numeric_limits<int64_t>::max(), most = 0;
    for (const PlannedLayout& planned : brute_force(config, hardware, c.num_ranks)) {
      least = std::min(least, planned.rank_bytes);
      most = std::max(most, planned.rank_bytes);
    }
    config.memory.recompute = Recompute::Fit;
    for (const double share : {0.0, 0.05, 0.2}) {
      config.memory.limit_bytes = least + int64_t(share * double(most - least));
      const LayoutSpace space = configured_space(config, c.num_ranks);
      const std::vector<PlannedLayout> all = brute_force(config, hardware, space);
      // The smallest layout of the other policies may need less than "fit" can.
      if (all.empty()) {
        EXPECT_FALSE(search_layout(config, {}, hardware, space, 3).ok());
        continue;
      }
      expect_found(config, hardware, space, config.memory.limit_bytes, all);
    }
  }
}

// On two ranks of one process tp calls the other rank in every layer of every micro-batch, dp only
// once per step.
TEST(SearchLayout, CallsThatCostMoreThanTheirBytesMakeDpFasterThanTp) {
  RunConfig config = small_run(ModelFamily::Gpt2);
  config.batch.global_sequences = 8;
  Hardware hardware = two_nodes();
  hardware.tiers[0].link = {5e-5, 8e9};
  const auto time_of = [&](const Mesh& mesh) {
    const RunConfig own = with_layout(config, {.mesh = mesh});
    return predict_stages(make_plan(own, {}).value(), hardware).front();
  };
  const StepTimes tp = time_of({2, 1, 1, 1, 1}), dp = time_of({1, 1, 1, 2, 1});
  EXPECT_GT(tp.step, dp.step);
  EXPECT_GT(tp.exposed_comm,
            8 * 4 * 4 * hardware.tiers[0].link.latency_s);  // micro-batches x layers
}

// The ranks of a host share its memory, so a layout is refused if the sum of its plans does not
// fit.
TEST(SearchLayout, OnAHostTooSmallSaysWhatAPlanOfAllItsRanksNeeds) {
  const RunConfig config = small_run(ModelFamily::Gpt2);
  for (const int num_ranks : {1, 2}) {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const PlannedLayout& planned : brute_force(config, two_nodes(), num_ranks)) {
      least = std::min(least, planned.all_bytes);
    }
    const HostFacts host{least - 1, 1, 0, 0};  // threads need scratch
    const Result<LayoutSearch> search = search_layout(config, host, two_nodes(), num_ranks, 3);
    ASSERT_FALSE(search.ok());
    const std::string& message = search.error().message;
    EXPECT_NE(message.find(fmt::format("this machine has {} for all ranks",
                                       format_bytes(host.memory_bytes))),
              std::string::npos)
        << message;
    EXPECT_EQ(message.find("more ranks"), std::string::npos) << message;
    EXPECT_NE(message.find("needs " + format_bytes(least)), std::string::npos) << message;
  }
}

std::string refusal_of_search(const RunConfig& config) {
  const Result<LayoutSearch> search = search_layout(config, {}, two_nodes(), 2, 3);
  return search.ok() ? "" : search.error().message;
}

// The refusal names an offload file if the smallest layout fits with it, and a search with that
// file needs exactly what was named.
TEST(SearchLayout, WhereNoLayoutFitsTheFileThatHelpsIsNamed) {
  RunConfig config = small_run(ModelFamily::Gpt2);
  config.model.d_model = 256;
  config.model.d_ff = 1024;
  config.memory.offload_buffer_bytes = 1 << 16;
  std::vector<int64_t> least;  // the least bytes for each value of memory.offload
  for (const OffloadChoice offload :
       {OffloadChoice::None, OffloadChoice::Optimizer, OffloadChoice::All}) {
    config.memory.offload = offload;
    least.push_back(corners_of(brute_force(config, two_nodes(), 2)).front());
  }
  ASSERT_TRUE(least[0] > least[1] && least[1] > least[2]);
  const auto named = [&](OffloadChoice offload, int64_t limit_bytes) {
    config.memory.offload = offload;
    config.memory.limit_bytes = limit_bytes;
    const std::string refusal = refusal_of_search(config);
    EXPECT_NE(refusal, "");
    const size_t at = refusal.find("it fits with --set ");
    return at == std::string::npos ? "" : refusal.substr(at + 19, refusal.find(" (", at) - at - 19);
  };
  EXPECT_EQ(named(OffloadChoice::None, least[0] - 1), "memory.offload=optimizer");
  EXPECT_EQ(named(OffloadChoice::Optimizer, least[1] - 1), "memory.offload=all");
  EXPECT_EQ(named(OffloadChoice::None, least[2] - 1), "");
  EXPECT_EQ(named(OffloadChoice::All, least[2] - 1), "");
  config.memory.offload = OffloadChoice::Optimizer;
  config.memory.limit_bytes = least[0] - 1;
  EXPECT_EQ(refusal_of_search(config), "");
}

// A layout that the search finds is never refused by make_plan.
TEST(SearchLayout, WhatItFindsOnAHostFitsTheHost) {
  const RunConfig config = small_run(ModelFamily::Gpt2);
  for (int64_t bytes = 1 << 20; bytes <= 64 << 20; bytes *= 2) {
    const HostFacts host{bytes, 4, 0, 0};
    const Result<LayoutSearch> search = search_layout(config, host, two_nodes(), 2, 3);
    if (!search.ok()) continue;
    for (const PricedLayout& priced : search->best) {
      const Result<RunPlan> plan = make_plan(with_layout(config, priced.layout), host);
      EXPECT_TRUE(plan.ok()) << plan.error().message;
    }
  }
}

// A plan that fits the larger device alone is refused with the rank whose device is too small. The
// search finds the fastest of those layouts that make_plan takes.
TEST(SearchLayout, OnAMixedClusterEveryRankFitsItsOwnDevice) {
  RunConfig config = small_run(ModelFamily::Gpt2, 4);
  Hardware hardware = with_other_device(two_nodes());
  hardware.name = hardware.others.front().device.name = "A";
  config.parallel.dp = 4;
  const int64_t bytes = most_arena_bytes(make_plan(config, {}).value());
  config.memory.limit_bytes = hardware.memory_bytes = bytes;
  hardware.others.front().device.memory_bytes = bytes - 1;
  hardware.others.front().device.name = "B";
  const Result<RunPlan> refused = make_plan(config, {.hardware = hardware});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("rank 2 has "), std::string::npos);
  EXPECT_NE(refused.error().message.find(" on its device, B"), std::string::npos);
  hardware.others.front().device.memory_bytes = bytes;
  EXPECT_TRUE(make_plan(config, {.hardware = hardware}).ok());

  hardware.others.front().device.memory_bytes = bytes / 64 * 63;
  const HostFacts host{.hardware = hardware};
  const LayoutSpace space = configured_space(config, {{.dp = 4}});
  double best_s = std::numeric_limits<double>::infinity();
  for (const PlannedLayout& planned : brute_force(config, hardware, space)) {
    const Result<RunPlan> plan = make_plan(with_layout(config, planned.layout), host);
    if (plan.ok()) best_s = std::min(best_s, predicted_step_s(*plan, hardware));
  }
  const Result<LayoutSearch> search = search_layout(config, host, hardware, space, 1);
  ASSERT_TRUE(search.ok()) << search.error().message;
  EXPECT_DOUBLE_EQ(search->best.front().time.step, best_s);
}

}  // namespace
}  // namespace trireme
