// Convolutional nets leave the bits of one rank on every layout without tp, and send what the plan
// says. The batch of a batch norm is a micro-batch, so the layout does not change its statistics.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "layout_run.h"
#include "planner/make_plan.h"

namespace trireme {
namespace {

struct NetCase {
  int dp = 1, pp = 1, zero = 0;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  Recompute recompute = Recompute::None;
  ComputeChoice compute = ComputeChoice::Fp32;
  bool post_validate = false;
};

RunPlan plan_of_images(ModelFamily family, const NetCase& c) {
  RunConfig config;
  config.model.family = family;
  config.model.layers = 4;
  config.model.image_size = family == ModelFamily::ConvNet ? 16 : 32;
  config.model.image_channels = 3;
  config.model.vocab_size = 10;
  config.model.seq_len = 1;
  config.data.source = DataSource::Synthetic;
  config.batch.global_sequences = 16;
  config.batch.micro_sequences = 2;
  config.optim.post_validate = c.post_validate;
  config.parallel.dp = c.dp;
  config.parallel.pp = c.pp;
  config.parallel.zero = c.zero;
  config.parallel.schedule = c.schedule;
  config.memory.recompute = c.recompute;
  config.precision.compute = c.compute;
  config.run.reproducible = Reproducible::Layout;
  config.run.threads_per_rank = 1;
  Result<RunPlan> plan = make_plan(config, {});
  TRIREME_CHECK(plan.ok(), plan.error().message);
  return *plan;
}

void expect_the_bits_on_images(ModelFamily family, const std::vector<NetCase>& cases) {
  for (const ComputeChoice compute :
       {ComputeChoice::Fp32, ComputeChoice::Bf16, ComputeChoice::Fp16}) {
    const LayoutRun one =
        run_layout(plan_of_images(family, {.compute = compute}), {.end = 3, .lr = 1e-3});
    EXPECT_EQ(one.differences, "");
    for (NetCase c : cases) {
      if (c.compute != compute) continue;
      const RunPlan plan = plan_of_images(family, c);
      const LayoutRun run = run_layout(plan, {.end = 3, .lr = 1e-3});
      SCOPED_TRACE(testing::Message() << "dp " << c.dp << ", pp " << c.pp << ", zero " << c.zero
                                      << ", " << name_of(c.schedule));
      EXPECT_EQ(difference(run, one), "");
      EXPECT_EQ(run.differences, "");
    }
  }
}

TEST(ParityOfImages, EveryLayoutLeavesTheBitsOfOneRank) {
  expect_the_bits_on_images(ModelFamily::ConvNet,
                            {{.dp = 2},
                             {.dp = 4, .zero = 1},
                             {.dp = 2, .zero = 2, .compute = ComputeChoice::Bf16},
                             {.dp = 4, .zero = 3},
                             {.pp = 2},
                             {.pp = 4, .schedule = ScheduleKind::ZbH1},
                             {.dp = 2, .pp = 2, .zero = 1, .schedule = ScheduleKind::Interleaved},
                             {.dp = 2, .pp = 2, .zero = 1, .schedule = ScheduleKind::Dualpipe},
                             {.dp = 2, .pp = 2, .compute = ComputeChoice::Bf16},
                             {.dp = 2, .zero = 2, .compute = ComputeChoice::Fp16},
                             {.dp = 2, .pp = 2, .compute = ComputeChoice::Fp16},
                             {.dp = 2, .recompute = Recompute::Full},
                             {.pp = 2, .recompute = Recompute::Selective, .post_validate = true}});
}

// The validation reads the running statistics of batch norms, which two ranks have summed.
TEST(ParityOfImages, ANetLearnsClassesAndItsRunningStatisticsClassifyOthers) {
  const RunPlan plan = plan_of_images(ModelFamily::ConvNet, {.dp = 2, .zero = 1});
  const LayoutRun run = run_layout(plan, {.end = 120, .lr = 3e-3});
  const double at_random = double(plan.global_sequences) * std::log(10.0);
  EXPECT_LT(run.losses.back(), 0.3 * at_random);
  EXPECT_LT(run.val_loss, 0.5 * std::log(10.0));
}

// The loss of a single step depends on its 16 images far more than on rounding, so means of a
// hundred steps are compared.
TEST(ParityOfImages, InHalfPrecisionANetLearnsWhatItLearnsInFp32) {
  const auto mean_of = [](ComputeChoice compute) {
    const RunPlan plan = plan_of_images(ModelFamily::ConvNet, {.dp = 2, .compute = compute});
    const LayoutRun run = run_layout(plan, {.end = 200, .lr = 3e-3, .evaluates = false});
    return std::accumulate(run.losses.end() - 100, run.losses.end(), 0.0) / 100.0;
  };
  const double whole = mean_of(ComputeChoice::Fp32), at_random = 16.0 * std::log(10.0);
  EXPECT_LT(whole, 0.5 * at_random);
  for (const ComputeChoice half : {ComputeChoice::Bf16, ComputeChoice::Fp16}) {
    EXPECT_NEAR(mean_of(half) / whole, 1.0, 0.1) << name_of(half);
  }
}

TEST(ParityOfImages, ResidualBlocksToo) {
  expect_the_bits_on_images(ModelFamily::ResNet50,
                            {{.dp = 2, .zero = 3},
                             {.dp = 2, .pp = 2, .zero = 1},
                             {.dp = 2, .zero = 1, .compute = ComputeChoice::Fp16}});
}

}  // namespace
}  // namespace trireme
