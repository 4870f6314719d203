#include "predict/layer_comm.h"

#include <gtest/gtest.h>

#include "planner/make_plan.h"
#include "planner/small_run_fixture.h"
#include "predict/predict.h"

namespace trireme {
namespace {

constexpr double kLatency = 1e-3, kBackground = 1e-2;

// A processor on which only the latencies of calls take time.
Hardware slow_calls() {
  Hardware hardware;
  hardware.fp32_flops = hardware.bf16_flops = hardware.fp16_flops = 1e30;
  hardware.memory_bytes_per_s = hardware.matmul_bytes_per_s = 1e30;
  hardware.background_s = kBackground;
  hardware.set_nodes(8, {kLatency, 1e30});
  return hardware;
}

// Keys and values make cp - 1 rounds in F and again in B, and their gradients make cp rounds. Then
// Step sums one gradient after the other.
TEST(LayerComm, EveryRoundOfARingAndEverySumOfAGradientIsACall) {
  for (const int cp : {2, 4}) {
    RunConfig config = small_run(ModelFamily::Gpt2);
    config.parallel.cp = cp;
    const RunPlan plan = make_plan(config, {}).value();
    double sums = 0.0;
    for (const OwnedParam& owned : plan.pipeline.front().chunks.front().owned) {
      sums += owned.second_use_begin >= 0 ? 2.0 : 1.0;
    }
    const double rounds = double(plan.num_microbatches * plan.model.layers) * (3.0 * cp - 2.0);
    const double sum_s = (cp == 2 ? 1.0 : 2.0) * kLatency;
    const StepTimes times = predict_stages(plan, slow_calls()).front();
    const double expected_s = rounds * (kLatency + kBackground) + sums * sum_s;
    EXPECT_NEAR(times.exposed[3], expected_s, 1e-6 * expected_s);
    EXPECT_NEAR(times.step, expected_s + sum_s, 1e-6 * expected_s);  // and the exchange
  }
}

}  // namespace
}  // namespace trireme
