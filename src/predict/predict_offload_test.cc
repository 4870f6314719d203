#include "predict/predict_offload.h"

#include <gtest/gtest.h>

#include "planner/make_plan.h"
#include "planner/small_run_fixture.h"
#include "predict/predict.h"

namespace trireme {
namespace {

double step_s(OffloadChoice offload, int zero, double bytes_per_s) {
  RunConfig config = small_run(ModelFamily::Gpt2);
  config.parallel.dp = zero > 0 ? 2 : 1;
  config.parallel.zero = zero;
  config.batch.global_sequences = 4;
  config.memory.offload = offload;
  Hardware hardware = two_nodes();
  hardware.offload_bytes_per_s = bytes_per_s;
  return predict_ranks(make_plan(config, {}).value(), hardware).step_s();
}

// A step that moves more takes longer, and a faster disk never makes it longer.
TEST(PredictOffload, StepsAreOrderedByWhatTheyMoveAndByTheSpeedOfTheDisk) {
  for (const int zero : {0, 1, 3}) {
    double slower_s[3] = {1e9, 1e9, 1e9};
    for (const double bytes_per_s : {1e7, 1e8, 1e9, 1e10}) {
      const double none = step_s(OffloadChoice::None, zero, bytes_per_s);
      const double optimizer = step_s(OffloadChoice::Optimizer, zero, bytes_per_s);
      const double all = step_s(OffloadChoice::All, zero, bytes_per_s);
      EXPECT_LT(none, optimizer) << "zero " << zero << " at " << bytes_per_s;
      EXPECT_LT(optimizer, all) << "zero " << zero << " at " << bytes_per_s;
      EXPECT_LE(none, slower_s[0]);
      EXPECT_LE(optimizer, slower_s[1]);
      EXPECT_LE(all, slower_s[2]);
      slower_s[0] = none, slower_s[1] = optimizer, slower_s[2] = all;
    }
  }
}

}  // namespace
}  // namespace trireme
