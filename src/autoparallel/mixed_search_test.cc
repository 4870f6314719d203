#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "autoparallel/planned_run.h"
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

}  // namespace
}  // namespace trireme
