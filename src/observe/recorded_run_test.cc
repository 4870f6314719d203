#include "observe/recorded_run.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(RecordedRun, HasTheResultsOfTheLastLinesAndTheMedianOfTheSteps) {
  std::string text = "{\"event\":\"run\",\"step\":0}\n";
  for (int step = 1; step <= 7; ++step) {
    text += "{\"event\":\"train\",\"step\":" + std::to_string(step) +
            ",\"loss\":" + std::to_string(8 - step) + ",\"step_s\":" + std::to_string(step) + "}\n";
  }
  text +=
      "{\"event\":\"eval\",\"step\":7,\"val_loss\":1.5,\"bits_per_byte\":2.5,\"epoch\":0.5}\n"
      "no line\n{\"event\":5}\n{\"event\":\"train\",\"step\":8,\"loss\":0.1";
  const RecordedRun run = recorded_run(text);
  EXPECT_EQ(run.steps, 7);
  EXPECT_EQ(run.final_loss, 1.0);
  EXPECT_EQ(run.step_s, 5.0);  // of steps 3 to 7
  EXPECT_EQ(run.val_loss, 1.5);
  EXPECT_EQ(run.bits_per_byte, 2.5);
  EXPECT_EQ(run.epoch, 0.5);
  EXPECT_FALSE(run.val_accuracy);
  EXPECT_EQ(recorded_run("").steps, 0);
  const RecordedRun broken = recorded_run("{\"event\":\"train\",\"step\":2,\"loss\":null}\n");
  EXPECT_EQ(broken.steps, 2);
  EXPECT_TRUE(std::isnan(broken.final_loss));
  EXPECT_EQ(broken.step_s, 0.0);
}

}  // namespace
}  // namespace trireme
