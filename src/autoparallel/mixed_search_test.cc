#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "autoparallel/cluster_stages.h"
#include "autoparallel/planned_run.h"
#include "autoparallel/split_plan.h"
#include "autoparallel/uneven_run.h"
#include "planner/make_plan.h"
#include "predict/predict.h"

namespace trireme {
namespace {

constexpr int64_t kMemory = int64_t{1} << 32;

// Ranks on nodes of their own, the first ones fast. The kernels of the slow ones take `times` as
// long.
Hardware fast_and_slow(int num_fast, double times) {
  Hardware hardware;
  hardware.name = "fast";
  hardware.fp32_flops = 1e12;
  hardware.bf16_flops = 2e12;
  hardware.memory_bytes_per_s = 1e12;
  hardware.memory_bytes = kMemory;
  hardware.set_nodes(1, {}, {5e-6, 10e9});
  OtherDevice slow{.label = "slow", .first_rank = num_fast, .device = hardware};
  slow.device.name = "slow";
  for (double Hardware::*speed :
       {&Hardware::fp32_flops, &Hardware::bf16_flops, &Hardware::memory_bytes_per_s}) {
    slow.device.*speed /= times;
  }
  hardware.others.push_back(slow);
  return hardware;
}

RunConfig run_of(int num_ranks) {
  RunConfig config;
  config.model.layers = 12;
  config.model.d_model = 256;
  config.model.heads = 8;
  config.model.d_ff = 1024;
  config.model.vocab_size = 256;
  config.model.seq_len = 128;
  config.model.dropout = 0.0;
  config.model.tied_head = false;
  config.batch.global_sequences = 48;
  config.batch.micro_sequences = 1;
  config.parallel.dp = num_ranks;
  config.memory.limit_bytes = kMemory;
  return config;
}

HostFacts host_of(const Hardware& hardware, int num_ranks) {
  HostFacts host;
  host.num_cores = 1;
  host.ranks_on_host = num_ranks;
  host.hardware = hardware;
  return host;
}

PlanSearch search_on(const Hardware& hardware, const RunConfig& config) {
  const int num_ranks = int(trireme::num_ranks(config.parallel));
  return search_plan(planned_run(config, host_of(hardware, num_ranks), hardware).value()).value();
}

// Returns the step that `trireme plan` predicts for the configuration of a plan.
double compiled_seconds(const FoundPlan& plan, const RunConfig& config, const Hardware& hardware) {
  const RunConfig runnable = runnable_config(plan, config, hardware).value();
  const Result<RunPlan> compiled =
      make_plan(runnable, host_of(hardware, int(num_ranks(config.parallel))));
  EXPECT_TRUE(compiled.ok()) << compiled.error().message;
  return compiled.ok() ? predicted_step_s(*compiled, hardware) : 0.0;
}

// A rank that computes twice as fast takes twice the layers. The slow rank decides the step of a
// uniform plan: it has half of the work W, W / 2 of its own speed. By speed it has a third of it:
// W / 3, which the fill of the pipeline makes a little longer.
TEST(MixedSearch, LayersFollowTheSpeedOfTheDevices) {
  const Hardware hardware = fast_and_slow(1, 2.0);
  const RunConfig config = run_of(2);
  const PlanSearch found = search_on(hardware, config);
  ASSERT_FALSE(found.by_speed.empty());
  ASSERT_FALSE(found.uniforms.empty());
  const auto& by_speed =
      *std::find_if(found.by_speed.begin(), found.by_speed.end(),
                    [](const FoundPlan& plan) { return plan.stages.size() == 2; });
  const std::vector<int> layers = layers_of_stages(by_speed, config.model.layers);
  EXPECT_EQ(layers, (std::vector<int>{8, 4}));
  EXPECT_EQ(runnable_config(by_speed, config, hardware).value().parallel.stage_layers, "8,4");
  EXPECT_LE(found.best.step_s, by_speed.step_s);
  EXPECT_GE(found.uniforms.front().step_s / found.best.step_s, 1.3);
  // The compiled plans have the same prices, so the gain is the same.
  const double uniform_s = compiled_seconds(found.uniforms.front(), config, hardware);
  const double by_speed_s = compiled_seconds(by_speed, config, hardware);
  EXPECT_NEAR(by_speed.step_s, by_speed_s, 0.05 * by_speed_s);
  EXPECT_NEAR(found.uniforms.front().step_s, uniform_s, 0.05 * uniform_s);
  EXPECT_GE(uniform_s / by_speed_s, 1.3);
  // The plan op by op has one rank in a stage, so a run can have it, too.
  EXPECT_NEAR(found.best.step_s, compiled_seconds(found.best, config, hardware),
              0.05 * found.best.step_s);
}

TEST(MixedSearch, EqualDevicesAreSearchedAsAPlainCluster) {
  const Hardware mixed = fast_and_slow(2, 1.0);
  RunConfig config = run_of(4);
  config.batch.global_sequences = 8;
  const PlanSearch of_mixed = search_on(mixed, config);
  const PlanSearch of_plain = search_on(mixed.all_of_device(0), config);
  EXPECT_EQ(of_mixed.best.step_s, of_plain.best.step_s);
  ASSERT_EQ(of_mixed.uniforms.size(), of_plain.uniforms.size());
  for (size_t i = 0; i < of_mixed.uniforms.size(); ++i) {
    EXPECT_EQ(of_mixed.uniforms[i].step_s, of_plain.uniforms[i].step_s);
  }
  EXPECT_TRUE(of_plain.by_speed.empty());
  EXPECT_TRUE(of_mixed.by_speed.empty()) << "they are the even ones";
}

// Degrees follow speed: two slow ranks share one stage as fast as the one fast rank alone.
TEST(MixedSearch, TwoSlowRanksShareAStageBesideOneFastRank) {
  const Hardware hardware = fast_and_slow(1, 2.0);
  const RunConfig config = run_of(3);
  const PlanSearch found = search_on(hardware, config);
  EXPECT_GE(found.uniforms.front().step_s / found.best.step_s, 1.2);
  const Result<RunConfig> runnable = runnable_config(found.best, config, hardware);
  ASSERT_TRUE(runnable.ok()) << runnable.error().message;
  EXPECT_NEAR(found.best.step_s, compiled_seconds(found.best, config, hardware),
              0.15 * found.best.step_s);
}

// Layers follow memory: a fast rank whose memory holds few layers gets no more of them.
TEST(MixedSearch, EveryStageFitsTheMemoryOfItsDevice) {
  Hardware hardware = fast_and_slow(1, 2.0);
  const RunConfig config = run_of(2);
  const PlanSearch before = search_on(hardware, config);
  ASSERT_EQ(before.best.stages.size(), 2u);
  const StagePlan& wide = before.best.stages.front();
  hardware.memory_bytes = int64_t(0.6 * wide.bytes);
  const PlanSearch after = search_on(hardware, config);
  ASSERT_EQ(after.best.stages.size(), 2u);
  EXPECT_LE(after.best.stages.front().bytes, double(hardware.memory_bytes));
  EXPECT_LT(after.best.stages.front().num_units, wide.num_units);
  EXPECT_GT(after.best.step_s, before.best.step_s);
}

// Four fast ranks share a node; of the slow ones behind them, `size` do.
Hardware nodes_of_two_sizes(int64_t size) {
  Hardware hardware = fast_and_slow(4, 2.0);
  hardware.tiers = {{.name = "node", .ranks = 4, .link = {1e-6, 100e9}},
                    {.name = "cluster", .link = {5e-6, 1e9}}};
  hardware.others.front().ranks_per_node = size;
  return hardware;
}

TEST(MixedSearch, NodesOfOneSizeGiveThePlansOfAFileThatDoesNotNameIt) {
  RunConfig config = run_of(8);
  config.batch.global_sequences = 16;
  const Hardware without = nodes_of_two_sizes(0), with = nodes_of_two_sizes(4);
  const PlanSearch a = search_on(without, config), b = search_on(with, config);
  const auto steps_of = [](const PlanSearch& found) {
    std::vector<double> steps = {found.best.step_s};
    for (const auto* plans : {&found.uniforms, &found.by_speed, &found.by_stage}) {
      for (const FoundPlan& plan : *plans) steps.push_back(plan.step_s);
    }
    return steps;
  };
  EXPECT_EQ(steps_of(a), steps_of(b));
  ASSERT_EQ(a.best.stages.size(), b.best.stages.size());
  for (size_t s = 0; s < a.best.stages.size(); ++s) {
    EXPECT_EQ(a.best.stages[s].mesh, b.best.stages[s].mesh);
    EXPECT_EQ(a.best.stages[s].num_units, b.best.stages[s].num_units);
  }
}

// Tries every cut of the units and every sequence of sub-meshes that the nodes allow.
class AllSplitsOnNodes {
 public:
  AllSplitsOnNodes(ClusterStages& search, int num_units, std::vector<int> node_of)
      : search_(search), num_units_(num_units), node_of_(std::move(node_of)) {}

  double least_seconds() {
    for (int stages = 1; stages <= num_units_; ++stages) add(stages, 0, 0, 0.0, 0.0);
    return least_s_;
  }

 private:
  int size_of_node(int node) const {
    return int(std::count(node_of_.begin(), node_of_.end(), node));
  }
  // (1, 2^i) inside a node of M ranks, or (n, M).
  bool is_allowed(int first, int count) const {
    const int size = size_of_node(node_of_[size_t(first)]);
    for (int rank = first; rank < first + count; ++rank) {
      if (size_of_node(node_of_[size_t(rank)]) != size) return false;
    }
    return count % size == 0 || (count < size && (count & (count - 1)) == 0);
  }
  void add(int stages, int unit, int rank, double sum, double slowest) {
    const auto num_ranks = int(node_of_.size());
    if (stages == 0) {
      if (unit != num_units_ || rank != num_ranks) return;
      const double more = double(search_.num_microbatches() - 1);
      least_s_ = std::min(least_s_, sum + more * slowest);
      return;
    }
    const int in_flight = int(std::min<int64_t>(stages, search_.num_microbatches()));
    for (int count = 1; rank + count <= num_ranks; ++count) {
      if (!is_allowed(rank, count)) continue;
      const int mix = search_.mix_of(rank, count);
      for (int last = unit; last < num_units_; ++last) {
        const double s = search_.best_seconds(mix, unit, last, count, in_flight);
        if (s == kImpossible) break;
        if (sum + s > least_s_) break;
        add(stages - 1, last + 1, rank + count, sum + s, std::max(slowest, s));
      }
    }
  }

  ClusterStages& search_;
  int num_units_;
  std::vector<int> node_of_;
  double least_s_ = kImpossible;
};

TEST(MixedSearch, FindsTheBestSplitOfAllOnNodesOfTwoSizes) {
  RunConfig config = run_of(6);
  config.model.layers = 4;
  config.batch.global_sequences = 4;
  for (const auto& [size, node_of] :
       {std::pair{2, std::vector<int>{0, 0, 0, 0, 1, 1}}, {1, {0, 0, 0, 0, 1, 2}}}) {
    const Hardware hardware = nodes_of_two_sizes(size);
    const PlannedRun run = planned_run(config, host_of(hardware, 6), hardware).value();
    std::vector<int> units(size_t(run.num_units()));
    std::iota(units.begin(), units.end(), 0);
    for (const int64_t sequences : {1, 2}) {
      ClusterStages search(run, sequences);
      const auto found = split_plan(run, search, by_op(search), units, false);
      ASSERT_TRUE(found.has_value());
      const double least_s = AllSplitsOnNodes(search, run.num_units(), node_of).least_seconds();
      EXPECT_GE(found->formula_s, least_s * (1.0 - 1e-12));
      EXPECT_LE(found->formula_s, least_s * (1.0 + 2.0 * kSlowestStageGap)) << size;
    }
  }
}

TEST(MixedSearch, StagesLieOnNodesOfOneSizeAndTheirPlansCompile) {
  RunConfig config = run_of(6);
  config.batch.global_sequences = 24;
  const Hardware hardware = nodes_of_two_sizes(2);
  const PlanSearch found = search_on(hardware, config);
  const NodeMap nodes = hardware.nodes();
  ASSERT_FALSE(found.by_stage.empty());
  for (const FoundPlan& plan : found.by_stage) {
    int first = 0;
    for (const StagePlan& stage : plan.stages) {
      const NodeSizes sizes = nodes.sizes(first, first + stage.num_ranks - 1);
      EXPECT_EQ(sizes.least, sizes.most) << first;
      first += stage.num_ranks;
    }
    EXPECT_EQ(first, 6);
    EXPECT_NEAR(plan.step_s, compiled_seconds(plan, config, hardware), 0.15 * plan.step_s);
  }
}

}  // namespace
}  // namespace trireme
