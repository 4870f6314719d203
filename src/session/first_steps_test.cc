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
  const std::string all = comparison_of_steps(20, predicted, times_of(0.2, 0.1, 0.1));
  for (const char* part : {"compute", "transfers", "other stages"}) {
    EXPECT_NE(all.find(part), std::string::npos) << all;
  }
}

}  // namespace
}  // namespace trireme
