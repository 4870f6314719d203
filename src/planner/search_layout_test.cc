#include "planner/search_layout.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/units.h"
#include "compile/compile_plan.h"
#include "planner/alternatives.h"
#include "planner/brute_force_fixture.h"
#include "planner/compile_to_fit.h"
#include "planner/layout_bound.h"
#include "planner/make_plan.h"
#include "planner/small_run_fixture.h"
#include "predict/price_schedule.h"
#include "program/make_schedule.h"
#include "schema/run_config_validate.h"

namespace trireme {
namespace {

constexpr MeshOrder kPpOutermost = {MeshAxis::Tp, MeshAxis::Cp, MeshAxis::Dp, MeshAxis::Pp};

struct Case {
  ModelFamily family;
  int64_t layers;
  int num_ranks;
  int64_t dense_layers = 0;
  int64_t other_node = 0;   // ranks of a node of another device; 0: all ranks have one device
  int64_t other_ranks = 0;  // ranks with the other device; 0: all behind the first two
};

// The ranks behind the first two have a device that multiplies faster and has a slower memory, so
// that none of the two devices is faster at everything. Their nodes have `ranks_per_node` ranks.
Hardware with_other_device(Hardware hardware, int64_t ranks_per_node = 2) {
  OtherDevice other{
      .label = "other", .first_rank = 2, .ranks_per_node = ranks_per_node, .device = hardware};
  other.device.bf16_flops *= 1.7;
  other.device.memory_bytes_per_s *= 0.4;
  hardware.others.push_back(std::move(other));
  return hardware;
}

// Brute force finds the same layout for every limit between two of these corners, so each corner is
// tested exactly and with one byte less. Every layout is planned once, and its bounds are checked.
TEST(SearchLayout, FindsWhatBruteForceFindsInEveryMemoryAndKeepsItsBounds) {
  for (const Case& c :
       {Case{ModelFamily::Gpt2, 4, 1}, Case{ModelFamily::Gpt2, 4, 4},
        Case{ModelFamily::Llama, 5, 3}, Case{ModelFamily::Moe, 2, 4},
        Case{ModelFamily::Moe, 4, 2, 1}, Case{ModelFamily::Llama, 5, 3, 0, 2},
        Case{ModelFamily::Llama, 5, 3, 0, 1}, Case{ModelFamily::Gpt2, 2, 4, 0, 1, 1}}) {
    RunConfig config = small_run(c.family, c.layers);
    config.model.dense_layers = c.dense_layers;
    config.model.d_model = 256;  // gives every matrix several blocks of the norm
    config.model.d_ff = 1024;
    Hardware hardware =
        c.other_node > 0 ? with_other_device(two_nodes(), c.other_node) : two_nodes();
    if (c.other_ranks > 0) hardware.others.back().ranks = c.other_ranks;
    LayoutSpace space = configured_space(config, c.num_ranks);
    if (c.other_node == 1) space.orders = {kUsualOrder, kPpOutermost};
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
                        Case{ModelFamily::Moe, 2, 2}, Case{ModelFamily::Gpt2, 4, 3, 0, 1}}) {
    RunConfig config = small_run(c.family, c.layers);
    config.model.seq_len = 64;  // so that activations count
    const Hardware hardware =
        c.other_node > 0 ? with_other_device(two_nodes(), c.other_node) : two_nodes();
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

double step_of(const RunConfig& config, const Hardware& hardware) {
  RunPlan plan = make_plan(config, {}).value();
  double step_s = 0.0;
  for (const StepTimes& time : predict_stages(plan, hardware)) {
    step_s = std::max(step_s, time.step);
  }
  return step_s;
}

TEST(SearchLayout, NoLayoutThatItFindsIsFasterWithTheCheapestValues) {
  RunConfig config = small_run(ModelFamily::Gpt2, 4);
  config.model.seq_len = 64;
  const Hardware hardware = two_nodes();
  int num_fitting = 0;
  const int64_t most = search_layout(config, {}, hardware, 2, 1)->best.front().arena_bytes;
  for (const double share : {0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}) {
    config.memory.limit_bytes = int64_t(share * double(most));
    const Result<LayoutSearch> found = search_layout(config, {}, hardware, 2, 5);
    if (!found.ok()) continue;
    for (const PricedLayout& priced : found->best) {
      LayoutChoice fitting = priced.layout;
      fitting.recompute = Recompute::Fit;
      RunConfig with_fit = with_layout(config, fitting);
      with_fit.batch.global_sequences = found->global_sequences;
      const bool is_found =
          std::any_of(found->best.begin(), found->best.end(), [&](const PricedLayout& other) {
            LayoutChoice layout = other.layout;
            layout.recompute = Recompute::Fit;
            return layout == fitting && other.time.step <= step_of(with_fit, hardware) * 1.000001;
          });
      EXPECT_TRUE(is_found) << describe(priced.layout) << " in " << config.memory.limit_bytes;
      num_fitting += priced.layout.recompute == Recompute::Fit ? 1 : 0;
    }
  }
  EXPECT_GT(num_fitting, 0);
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
