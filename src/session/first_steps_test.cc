#include "session/first_steps.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

StepTimes times_of(double compute, double comm, double bubble) {
  StepTimes times;
  times.compute = compute;
  times.exposed_comm = comm;
  times.bubble = bubble;
  times.step = compute + comm + bubble;
  return times;
}

TEST(FirstSteps, NameThePartsThatWereOffAndNoOthers) {
  const StepTimes predicted = times_of(0.100, 0.010, 0.020);
  EXPECT_EQ(comparison_of_steps(20, predicted, predicted),
            "after 20 steps: 130.0 ms a step predicted, 130.0 ms measured");
  EXPECT_EQ(
      comparison_of_steps(20, predicted, times_of(0.101, 0.060, 0.020)),
      "after 20 steps: 130.0 ms a step predicted, 181.0 ms measured: waiting for transfers took "
      "60.0 ms and not 10.0 ms");
  // Rounding may leave a difference of sums below zero.
  EXPECT_EQ(comparison_of_steps(20, times_of(0.100, 0.010, -1e-18), times_of(0.1, 0.01, 0.020)),
            "after 20 steps: 110.0 ms a step predicted, 130.0 ms measured: waiting for other "
            "stages took 20.0 ms and not 0.0 us");
  const std::string all = comparison_of_steps(20, predicted, times_of(0.2, 0.1, 0.1));
  for (const char* part : {"compute", "transfers", "other stages"}) {
    EXPECT_NE(all.find(part), std::string::npos) << all;
  }
}

OpTimes op_of(const char* unit, const char* op, double seconds) {
  return {.unit = unit, .op = op, .seconds = {seconds, 0.0, 0.0}};
}

TEST(FirstSteps, NameTheOpsThatWereFurthestOff) {
  const OpComparison alike{{op_of("head", "logits", 0.1)}, {op_of("head", "logits", 0.1005)}};
  EXPECT_EQ(comparison_of_ops(alike, 0.1), "");
  const OpComparison off{{op_of("layers.0", "attn", 0.01), op_of("layers.1", "attn", 0.01),
                          op_of("head", "logits", 0.03)},
                         {op_of("layers.0", "attn", 0.02), op_of("layers.1", "attn", 0.03),
                          op_of("head", "logits", 0.02)}};
  EXPECT_EQ(comparison_of_ops(off, 0.1),
            "ops that were off: layers attn took 50.0 ms and not 20.0 ms, head logits took 20.0 ms "
            "and not 30.0 ms");
}

}  // namespace
}  // namespace trireme
