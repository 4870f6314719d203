#include "session/learned_hardware.h"

#include <gtest/gtest.h>

#include "planner/make_plan.h"
#include "predict/predict.h"

namespace trireme {
namespace {

RunConfig small_config(int dp) {
  RunConfig config;
  config.model.vocab_size = 96;
  config.model.seq_len = 64;
  config.batch.global_sequences = 8;
  config.batch.micro_sequences = 1;
  config.parallel.dp = dp;
  return config;
}

Hardware some_machine() {
  Hardware hardware;
  hardware.fp32_flops = 1e11;
  hardware.bf16_flops = 2e11;
  hardware.fp16_flops = 1e11;
  hardware.memory_bytes_per_s = 2e10;
  hardware.launch_s = 1e-6;
  hardware.set_nodes(2, {1e-5, 1e9});
  return hardware;
}

StepTimes predicted_times(const RunConfig& config, const Hardware& hardware) {
  const RunPlan plan = make_plan(config, {}).value();
  return predict_ranks(plan, hardware).at(0).time;
}

// The next prediction of the same run is what was measured, whether the machine was slower or
// faster than thought.
TEST(LearnedHardware, PredictsTheComputeThatWasMeasured) {
  const RunConfig config = small_config(1);
  const StepTimes predicted = predicted_times(config, some_machine());
  for (const double factor : {0.3, 0.9, 1.0, 1.1, 1.6}) {
    for (const double left : {1.0, 0.6}) {
      StepTimes measured = predicted;
      measured.compute = predicted.compute * factor / left;
      measured.step = measured.compute;
      const Hardware learned = learned_hardware(some_machine(), predicted, measured, {}, left);
      EXPECT_NEAR(predicted_times(config, learned).compute / (predicted.compute * factor), 1.0,
                  0.02);
      EXPECT_TRUE(validate(learned).empty());
    }
  }
}

// If products, attention and the rest are off by factors of their own, each price is learned by
// itself. Time that no op accounts for becomes a fixed time of the step.
TEST(LearnedHardware, PredictsEveryKindOfOpThatWasMeasured) {
  const RunConfig config = small_config(1);
  const RunPlan plan = make_plan(config, {}).value();
  Hardware machine = some_machine();
  machine.launch_s = 0.0;
  const StepTimes predicted = predicted_times(config, machine);
  OpComparison ops{predict_ops(plan, rank_plan(plan, 0), machine), {}};
  ops.measured = ops.predicted;
  StepTimes measured = predicted;
  constexpr double kFixed_s = 3e-4;
  const double factors[] = {1.4, 2.0, 1.2};  // by OpLimit
  measured.optimizer *= factors[size_t(OpLimit::Memory)];
  measured.compute += kFixed_s + measured.optimizer - predicted.optimizer;
  for (OpTimes& op : ops.measured) {
    const double factor = factors[size_t(op.limit)];
    measured.compute += (factor - 1.0) * total_s(op.seconds);
    for (double& seconds : op.seconds) seconds *= factor;
  }
  measured.step = measured.compute;
  const Hardware learned = learned_hardware(machine, predicted, measured, ops, 1.0);
  EXPECT_NEAR(learned.step_s / kFixed_s, 1.0, 1e-6);
  const std::vector<OpTimes> again = predict_ops(plan, rank_plan(plan, 0), learned);
  for (size_t i = 0; i < again.size(); ++i) {
    EXPECT_NEAR(total_s(again[i].seconds), total_s(ops.measured[i].seconds),
                0.03 * total_s(ops.measured[i].seconds))
        << again[i].unit << " " << again[i].op;
  }
  EXPECT_NEAR(predicted_times(config, learned).compute / measured.compute, 1.0, 0.02);
}

TEST(LearnedHardware, SlowTransfersMakeItsLinksSlower) {
  const StepTimes predicted = predicted_times(small_config(2), some_machine());
  ASSERT_GT(predicted.exposed_comm, 0.0);
  StepTimes measured = predicted;
  measured.exposed_comm *= 2.0;
  measured.step += predicted.exposed_comm;
  const Hardware learned = learned_hardware(some_machine(), predicted, measured, {}, 1.0);
  EXPECT_DOUBLE_EQ(learned.tiers.front().link.bytes_per_s, 0.5e9);
  EXPECT_DOUBLE_EQ(learned.tiers.front().link.latency_s, 2e-5);
  EXPECT_DOUBLE_EQ(learned.matmul_share, some_machine().matmul_share);
}

TEST(LearnedHardware, WhatWasNotMeasuredStaysAsItIs) {
  const StepTimes predicted = predicted_times(small_config(1), some_machine());
  EXPECT_EQ(to_toml(learned_hardware(some_machine(), predicted, {}, {}, 1.0)),
            to_toml(some_machine()));
}

}  // namespace
}  // namespace trireme
