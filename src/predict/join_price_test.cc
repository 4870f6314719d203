#include "predict/join_price.h"

#include <gtest/gtest.h>

#include "planner/make_plan.h"
#include "planner/small_run_fixture.h"
#include "predict/predict.h"

namespace trireme {
namespace {

constexpr double kJoinLatency = 1e-3, kJoinBytesPerS = 1e6;

// A processor on which only links take time.
Hardware slow_links() {
  Hardware hardware;
  hardware.fp32_flops = hardware.bf16_flops = hardware.fp16_flops = 1e30;
  hardware.memory_bytes_per_s = hardware.matmul_bytes_per_s = 1e30;
  hardware.set_nodes(8, {kJoinLatency, kJoinBytesPerS});
  return hardware;
}

std::vector<double> joins_of(const RunConfig& config) {
  const RunPlan plan = make_plan(config, {}).value();
  const Hardware hardware = slow_links();
  CollectiveBytes collective_bytes(comm_cost(plan), hardware.nodes());
  std::vector<double> seconds;
  for (const RankPlan& rank : plan.pipeline) {
    seconds.push_back(price_joins(plan, rank, hardware, collective_bytes));
  }
  return seconds;
}

RunConfig pipeline_of(int pp, bool is_tied) {
  RunConfig config = small_run(ModelFamily::Gpt2);
  config.model.vocab_size = 8192;  // so that two ranks can halve the table
  config.model.tied_head = is_tied;
  config.parallel.pp = pp;
  config.batch.micro_sequences = 1;
  return config;
}

// The first and the last stage sum the gradient of the whole table, or each rank its shard of it.
TEST(JoinPrice, ATiedTableIsSummedByTwoPlaces) {
  for (const int pp : {2, 4}) {
    for (const int zero : {0, 1}) {
      RunConfig config = pipeline_of(pp, true);
      config.parallel.dp = zero == 0 ? 1 : 2;
      config.parallel.zero = zero;
      const double table = double(config.model.vocab_size * config.model.d_model * 4);
      const double sum_s = kJoinLatency + table / config.parallel.dp / kJoinBytesPerS;
      const std::vector<double> joins_s = joins_of(config);
      EXPECT_NEAR(joins_s.front(), sum_s, 0.01 * sum_s) << pp << " " << zero;
      EXPECT_NEAR(joins_s.back(), sum_s, 0.01 * sum_s) << pp << " " << zero;
      for (int place = 1; place < pp - 1; ++place) EXPECT_EQ(joins_s[size_t(place)], 0.0);
    }
    for (const double seconds : joins_of(pipeline_of(pp, false))) EXPECT_EQ(seconds, 0.0);
  }
}

// Each rank of DualPipe sums all its gradients with its mirror.
TEST(JoinPrice, BothDirectionsOfDualPipeSumAllGradients) {
  RunConfig config = pipeline_of(2, false);
  config.parallel.schedule = ScheduleKind::Dualpipe;
  const RunPlan plan = make_plan(config, {}).value();
  double expected_s = 0.0;
  for (const ChunkTables& chunk : plan.pipeline.front().chunks) {
    for (const PlacedBucket& placed : chunk.buckets) {
      expected_s += kJoinLatency + double(placed.bucket.grads().count * 4) / kJoinBytesPerS;
    }
  }
  EXPECT_GT(expected_s, 0.1);
  for (const double seconds : joins_of(config)) {
    EXPECT_NEAR(seconds, expected_s, 0.01 * expected_s);
  }
}

// The step, and what of it the pipeline exposes, contain the sum.
TEST(JoinPrice, IsPartOfTheStep) {
  const RunPlan plan = make_plan(pipeline_of(2, true), {}).value();
  const Hardware slow = slow_links();
  Hardware fast = slow;
  fast.set_nodes(8, {kJoinLatency, 1e30});
  CollectiveBytes collective_bytes(comm_cost(plan), slow.nodes());
  const double joins_s = price_joins(plan, plan.pipeline.front(), slow, collective_bytes);
  const StepTimes on_slow = predict_stages(plan, slow).front();
  EXPECT_GE(on_slow.step - predict_stages(plan, fast).front().step, joins_s - kJoinLatency);
  EXPECT_NEAR(on_slow.compute + on_slow.exposed_comm + on_slow.bubble, on_slow.step,
              1e-9 * on_slow.step);
}

}  // namespace
}  // namespace trireme
