#include "cli/sweep_progress.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

// If all trials start alike and all steps take as long, the time left is exact from the first step
// of the first trial on, however short trials are. A sweep that is resumed knows as much.
TEST(SweepClock, KnowsTheTimeLeftFromTheFirstStepOn) {
  constexpr double kStart_s = 4.0, kStep_s = 0.25;
  constexpr int64_t kTrials = 5;
  for (const int64_t steps : {1, 3, 20}) {
    for (const int64_t first : {0, 2}) {
      SweepClock clock;
      double now_s = 100.0;
      const double end_s = now_s + double(kTrials - first) * (kStart_s + double(steps) * kStep_s);
      for (int64_t trial = first; trial < kTrials; ++trial) {
        clock.begin(now_s);
        now_s += kStart_s;
        for (int64_t step = 1; step <= steps; ++step) {
          now_s += kStep_s;
          clock.end_step(now_s, kStep_s);
          const int64_t later = kTrials - trial - 1;
          EXPECT_NEAR(now_s + clock.left_s(steps - step + later * steps, later), end_s, 1e-9)
              << trial << " " << step;
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme
