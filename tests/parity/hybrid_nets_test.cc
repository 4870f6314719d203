// Hybrid parallelism: the tp ranks share out the images of convolutions and the units of dense
// layers. Losses and gradients stay within the bounds of one rank, the statistics of batch norms
// have its bits, and the ranks send what the plan and the closed form say.

#include <gtest/gtest.h>

#include "graph/param_table.h"
#include "hybrid_net.h"
#include "layout_case.h"
#include "layout_laws.h"
#include "planner/make_plan.h"
#include "schema/image_net.h"

namespace trireme {
namespace {

TEST(ParityOfHybridNets, NetsWithBatchNorm) {
  expect_near_one_rank(kConvNet, {{.tp = 2},
                                  {.tp = 4, .recompute = Recompute::Full},
                                  {.dp = 2, .tp = 2, .zero = 1},
                                  {.dp = 2, .tp = 2, .pp = 2, .zero = 3},
                                  {.tp = 2, .pp = 2, .schedule = ScheduleKind::ZbH1}});
  expect_near_one_rank(kResNet, {{.tp = 2, .recompute = Recompute::Selective}});
}

// The running statistics come from the forward pass of the first step alone, before any weight has
// changed.
TEST(ParityOfHybridNets, StatisticsOfBatchNormsHaveTheBitsOfOneRank) {
  const LayoutRun one = run_layout(plan_of_hybrid(kConvNet, {}), {.end = 1, .evaluates = false});
  const LayoutRun four =
      run_layout(plan_of_hybrid(kConvNet, {.tp = 4}), {.end = 1, .evaluates = false});
  int num_compared = 0;
  for (const auto& [name, values] : one.weights) {
    if (!name.ends_with(".mean") && !name.ends_with(".variance")) continue;
    EXPECT_EQ(four.weights.at(name), values) << name;
    ++num_compared;
  }
  EXPECT_EQ(num_compared, 2 * 4);
}

// Batch norms over a step join the sums of the ranks of tp, and then those of the ranks of dp.
TEST(ParityOfHybridNets, BatchNormsOverAStepKeepWithinBounds) {
  const auto run = [](const HybridLayout& layout) {
    RunConfig config = hybrid_config_of(kConvNet, layout);
    config.model.batch_norm = NormBatch::Step;
    config.run.reproducible = Reproducible::Fixed;
    return run_of(make_plan(config, {}).value(), 2);
  };
  const LayoutRun one = run({});
  expect_near(run({.tp = 2}), one);
  expect_near(run({.dp = 2, .tp = 2, .zero = 1}), one);
}

// A feature is dropped by the number of its image, so no layout changes which are.
TEST(ParityOfHybridNets, DropoutLeavesTheBitsOfOneRankOnEveryLayout) {
  const auto run = [](const HybridLayout& layout, double dropout) {
    RunConfig config = hybrid_config_of(kAlexNet, layout);
    config.model.dropout = dropout;
    return run_of(make_plan(config, {}).value(), 1);
  };
  const LayoutRun one = run({}, 0.5);
  EXPECT_NE(one.losses, run({}, 0.0).losses);
  for (const HybridLayout& layout :
       {HybridLayout{.dp = 2, .zero = 2}, HybridLayout{.pp = 2, .recompute = Recompute::Full}}) {
    const LayoutRun other = run(layout, 0.5);
    EXPECT_EQ(other.losses, one.losses);
    EXPECT_EQ(other.weights, one.weights);
  }
}

// Ranks of tp drop what one rank drops, whether they have some of the images or some of the
// features: another mask would change losses and gradients far more than the order of sums.
TEST(ParityOfHybridNets, DropoutOverTpIsThatOfOneRank) {
  const auto run = [](const HybridNet& net, const HybridLayout& layout) {
    RunConfig config = hybrid_config_of(net, layout);
    config.model.dropout = 0.5;
    return run_of(make_plan(config, {}).value(), 1);
  };
  const LayoutRun one = run(kAlexNet, {});
  expect_near(run(kAlexNet, {.tp = 2}), one);
  expect_near(run(kAlexNet, {.dp = 2, .tp = 2, .recompute = Recompute::Full}), one);
  expect_near(run(kAlexNet, {.tp = 2, .layers = {{"fc*", LayerStrategy::Data}}}), one);
  expect_near(run(kVgg16, {.tp = 2}), run(kVgg16, {}));
}

int64_t params_of(const ModelSpec& model, const std::string& ending) {
  int64_t elements = 0;
  for (const ParamSpec& param : param_table(model, whole_model(model))) {
    if (param.name.ends_with(ending)) elements += param.shape.num_elements();
  }
  return elements;
}

// Per micro-batch of B images on p ranks: the X features that the first dense layer reads are
// gathered twice, and their gradients summed; the D features that the head reads are summed once
// and gathered twice, their gradients gathered and summed; the softmax has 3 p numbers of an image.
// Once per step the gradients of the convolutions are summed. Those of their biases are so small
// that every rank sends them to every other.
int64_t bytes_of_form(const ModelSpec& model, int64_t p, int64_t B, int64_t microbatches) {
  const int64_t X = block_of(model, model.layers - 1).features(), D = model.d_model;
  const int64_t features = B * (3 * X + 5 * D + 3 * p);
  const int64_t sums = 2 * params_of(model, "conv.w") + p * params_of(model, "conv.b");
  return 4 * (p - 1) * (microbatches * features + sums);
}

void expect_one_rank_and_the_closed_form(const HybridNet& net, int most_ranks) {
  const LayoutRun one = run_of(plan_of_hybrid(net, {}), 2);
  for (int tp = 2; tp <= most_ranks; tp *= 2) {
    SCOPED_TRACE(testing::Message() << "tp " << tp);
    const RunPlan plan = plan_of_hybrid(net, {.tp = tp});
    const int64_t bytes = bytes_of_form(plan.model, tp, 8, 2);
    EXPECT_EQ(planned_bytes(plan), bytes);
    const LayoutRun run = run_of(plan, 2);
    expect_near(run, one);
    EXPECT_EQ(run.sent_bytes.at("tp"), 2 * bytes);
  }
}

TEST(ParityOfHybridNets, DenseLayersInPartsSendTheClosedForm) {
  expect_one_rank_and_the_closed_form(kAlexNet, 2);
}
TEST(ParityOfHybridNetsInFull, AlexNet) { expect_one_rank_and_the_closed_form(kAlexNet, 8); }
TEST(ParityOfHybridNetsInFull, Vgg16) { expect_one_rank_and_the_closed_form(kVgg16, 8); }
TEST(ParityOfHybridNetsInFull, OtherLayouts) {
  expect_near_one_rank(kAlexNet, {{.tp = 2, .pp = 2, .schedule = ScheduleKind::ZbH1},
                                  {.dp = 2, .tp = 2, .zero = 2},
                                  {.tp = 2, .layers = {{"fc*", LayerStrategy::Data}}}});
}

// Any graph: the tokens of the MLP of a transformer stay where sequence parallelism has them.
TEST(ParityOfHybridNets, AnMlpByDataKeepsWithinBounds) {
  const Case c{.family = "llama", .tp = 2, .sequence = true};
  RunConfig config = config_of(c);
  config.parallel.layers = {{"mlp.*", LayerStrategy::Data}};
  Result<RunPlan> plan = make_plan(config, {});
  TRIREME_CHECK(plan.ok(), plan.error().message);
  const LayoutRun run = run_layout(*plan);
  expect_near(run, reference_of(c));
  EXPECT_EQ(run.differences, "");
}

// On eight ranks at 224 x 224 pixels and 128 images.
TEST(ParityOfHybridNets, SendLessThanAFifthOfDataParallelism) {
  for (HybridNet net : {kAlexNet, kVgg16}) {
    net.image_size = 224;
    RunConfig hybrid = hybrid_config_of(net, {.tp = 8, .images = 128});
    hybrid.batch.global_sequences = 128;
    hybrid.run.reproducible = Reproducible::Fixed;
    RunConfig data = hybrid;
    data.parallel.tp = 1;
    data.parallel.dp = 8;
    data.batch.micro_sequences = 16;
    const auto bytes = [](const RunConfig& config) {
      Result<RunPlan> plan = make_plan(config, {});
      TRIREME_CHECK(plan.ok(), plan.error().message);
      return planned_bytes(*plan);
    };
    const int64_t by_hybrid = bytes(hybrid), by_data = bytes(data);
    EXPECT_LE(5 * by_hybrid, by_data) << name_of(net.family);
    EXPECT_EQ(by_hybrid, bytes_of_form(with_defaults(hybrid.model, 0), 8, 128, 1));
  }
}

}  // namespace
}  // namespace trireme
