// Convolutional nets leave the bits of one rank on every layout without tp, and send what the plan
// says. The batch of a batch norm is a micro-batch, or all images of a step: neither depends on the
// layout.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "layout_laws.h"
#include "layout_run.h"
#include "planner/make_plan.h"
#include "predict/predict.h"
#include "schema/image_net.h"

namespace trireme {
namespace {

struct NetCase {
  int dp = 1, pp = 1, zero = 0;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  Recompute recompute = Recompute::None;
  ComputeChoice compute = ComputeChoice::Fp32;
  bool post_validate = false;
  NormBatch batch_norm = NormBatch::MicroBatch;
  int64_t images = 2;  // of a micro-batch
};

RunConfig config_of_images(ModelFamily family, const NetCase& c) {
  RunConfig config;
  config.model.family = family;
  config.model.layers = 4;
  config.model.image_size = family == ModelFamily::ConvNet ? 16 : 32;
  config.model.image_channels = 3;
  config.model.vocab_size = 10;
  config.model.seq_len = 1;
  config.data.source = DataSource::Synthetic;
  config.batch.global_sequences = 16;
  config.batch.micro_sequences = c.images;
  config.model.batch_norm = c.batch_norm;
  config.optim.post_validate = c.post_validate;
  config.parallel.dp = c.dp;
  config.parallel.pp = c.pp;
  config.parallel.zero = c.zero;
  config.parallel.schedule = c.schedule;
  config.memory.recompute = c.recompute;
  config.precision.compute = c.compute;
  config.run.reproducible = Reproducible::Layout;
  config.run.threads_per_rank = 1;
  return config;
}

RunPlan plan_of(const RunConfig& config) {
  Result<RunPlan> plan = make_plan(config, {});
  TRIREME_CHECK(plan.ok(), plan.error().message);
  return *plan;
}

RunPlan plan_of_images(ModelFamily family, const NetCase& c) {
  return plan_of(config_of_images(family, c));
}

void expect_the_bits_on_images(ModelFamily family, const std::vector<NetCase>& cases,
                               NormBatch batch_norm = NormBatch::MicroBatch) {
  for (const ComputeChoice compute :
       {ComputeChoice::Fp32, ComputeChoice::Bf16, ComputeChoice::Fp16}) {
    const RunPlan alone = plan_of_images(family, {.compute = compute, .batch_norm = batch_norm});
    const LayoutRun one = run_layout(alone, {.end = 3, .lr = 1e-3});
    EXPECT_EQ(one.differences, "");
    for (NetCase c : cases) {
      if (c.compute != compute) continue;
      c.batch_norm = batch_norm;
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

// All ranks join the sums of all images. A leaf of the sums of gradients has two images, however
// many of them a rank has.
TEST(ParityOfBatchNormsOverAStep, EveryLayoutLeavesTheBitsOfOneRank) {
  expect_the_bits_on_images(ModelFamily::ConvNet,
                            {{.dp = 2},
                             {.dp = 4, .zero = 1},
                             {.dp = 8, .zero = 3},
                             {.dp = 2, .zero = 2, .compute = ComputeChoice::Bf16},
                             {.dp = 2, .pp = 2, .zero = 1},
                             {.pp = 2, .schedule = ScheduleKind::ZbH1},
                             {.dp = 4, .compute = ComputeChoice::Fp16},
                             {.dp = 2, .recompute = Recompute::Full},
                             {.dp = 2, .post_validate = true}},
                            NormBatch::Step);
}

TEST(ParityOfBatchNormsOverAStep, ResidualBlocksToo) {
  expect_the_bits_on_images(ModelFamily::ResNet50, {{.dp = 2, .zero = 3}, {.dp = 4}},
                            NormBatch::Step);
}

// The net of configs/digits.toml.
TEST(ParityOfBatchNormsOverAStep, TheNetOfDigitsToo) {
  const auto run = [](int dp) {
    RunConfig config = config_of_images(ModelFamily::ConvNet,
                                        {.dp = dp, .batch_norm = NormBatch::Step, .images = 8});
    config.model.layers = 1;
    config.model.width_factor = 2;
    config.model.image_size = 8;
    config.model.image_channels = 1;
    config.batch.global_sequences = 64;
    config.optim.name = OptimizerKind::Sgd;
    return run_layout(plan_of(config), {.lr = 0.1});
  };
  const LayoutRun one = run(1);
  for (const int dp : {2, 4}) {
    const LayoutRun other = run(dp);
    EXPECT_EQ(difference(other, one), "") << "dp " << dp;
    EXPECT_EQ(other.differences, "");
  }
}

// A step that is one micro-batch is the definition. Only the order of the sums of gradients differs
// from it, so the loss of the first step, and the statistics that it leaves, have the same bits.
TEST(ParityOfBatchNormsOverAStep, AreThoseOfOneMicroBatchOfAllImages) {
  const auto run = [](const NetCase& c, int steps) {
    return run_layout(plan_of_images(ModelFamily::ConvNet, c), {.end = steps, .lr = 1e-3});
  };
  const NetCase whole{.images = 16}, by_ranks{.dp = 4, .batch_norm = NormBatch::Step};
  const LayoutRun one = run(whole, 1), four = run(by_ranks, 1);
  EXPECT_NEAR(four.losses.front(), one.losses.front(), 1e-12 * one.losses.front());
  for (const auto& [name, values] : one.weights) {
    if (!name.ends_with(".mean") && !name.ends_with(".variance")) continue;
    EXPECT_EQ(four.weights.at(name), values) << name;
  }
  expect_near(run(by_ranks, 3), run(whole, 3));
  EXPECT_NE(run({.dp = 4}, 1).losses, one.losses);  // micro-batches of two images
}

// The sums of a batch norm of C channels over B images are gathered in F and in B: each of p ranks
// sends 2 C numbers of each of its images to the others.
TEST(ParityOfBatchNormsOverAStep, SendTheClosedForm) {
  const auto dp_bytes = [](const NetCase& c) {
    const LayoutRun run =
        run_layout(plan_of_images(ModelFamily::ConvNet, c), {.end = 1, .evaluates = false});
    EXPECT_EQ(run.differences, "");
    return run.sent_bytes.at("dp");
  };
  for (const int dp : {2, 4}) {
    const NetCase by_step{.dp = dp, .batch_norm = NormBatch::Step};
    const ModelSpec model = plan_of_images(ModelFamily::ConvNet, by_step).model;
    int64_t channels = 0;
    for (int64_t i = 0; i <= model.layers; ++i) channels += block_of(model, i).filters;
    const int64_t sums = 2 * (dp - 1) * 16 * 2 * channels * int64_t(sizeof(float));
    EXPECT_EQ(dp_bytes(by_step), dp_bytes({.dp = dp}) + sums) << "dp " << dp;
  }
}

}  // namespace
}  // namespace trireme
