#include "optim/loss_scale.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme {
namespace {

TEST(LossScale, HalvesAtAnOverflowAndDoublesAfterAWindowOfGoodSteps) {
  LossScale scale(64.0, 3);
  scale.take_step(true);
  EXPECT_EQ(scale.value(), 32.0);
  for (const double expected : {32.0, 32.0, 64.0, 64.0, 64.0, 128.0}) {
    scale.take_step(false);
    EXPECT_EQ(scale.value(), expected);
  }
  scale.take_step(false);
  scale.take_step(true);  // resets the count of good steps
  scale.take_step(false);
  scale.take_step(false);
  EXPECT_EQ(scale.value(), 64.0);
}

// After any steps it is a power of two that fp32 can hold, so dividing by it is exact.
TEST(LossScale, StaysAPowerOfTwo) {
  for (const bool skipped : {false, true}) {
    LossScale scale(1.0, 1);
    for (int step = 0; step < 100; ++step) scale.take_step(skipped);
    int exponent = 0;
    EXPECT_EQ(std::frexp(scale.value(), &exponent), 0.5);
    EXPECT_LE(std::abs(exponent), 25);
  }
}

TEST(LossScale, ResumesFromItsState) {
  LossScale whole(16.0, 5), first(16.0, 5), second(1.0, 5);
  for (int step = 0; step < 20; ++step) {
    whole.take_step(step % 7 == 3);
    (step < 8 ? first : second).take_step(step % 7 == 3);
    if (step == 7) second.set_state(first.state());
  }
  EXPECT_EQ(second.value(), whole.value());
  EXPECT_EQ(second.state().good_steps, whole.state().good_steps);
}

TEST(LossScale, IsOneWhereThereIsNone) {
  LossScale none;
  none.take_step(true);
  EXPECT_EQ(none.value(), 1.0);
}

}  // namespace
}  // namespace trireme
