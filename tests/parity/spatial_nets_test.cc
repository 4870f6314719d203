// Spatial parallelism: the tp ranks share out the rows of every image of a convolution, and
// exchange the rows that its windows read beyond their own. Losses and gradients stay within the
// bounds of one rank, and the ranks send what the plan and the closed form say.

#include <gtest/gtest.h>

#include "graph/param_table.h"
#include "hybrid_net.h"
#include "layout_laws.h"
#include "planner/make_plan.h"
#include "schema/image_net.h"

namespace trireme {
namespace {

const std::vector<LayerRule> kAllByRows = {{"conv*", LayerStrategy::Spatial}};
// The last pool of AlexNet leaves fewer rows than there are ranks.
const std::vector<LayerRule> kLastByData = {{"layers.3.conv", LayerStrategy::Data},
                                            {"conv*", LayerStrategy::Spatial}};

HybridNet with_size(HybridNet net, int64_t image_size) {
  net.image_size = image_size;
  return net;
}

TEST(ParityOfSpatialNets, NetsWithBatchNorm) {
  expect_near_one_rank(kConvNet,
                       {{.tp = 1, .layers = kAllByRows},
                        {.tp = 2, .layers = kAllByRows},
                        {.tp = 2, .recompute = Recompute::Full, .layers = kAllByRows},
                        {.dp = 2, .tp = 2, .zero = 1, .layers = kAllByRows},
                        {.tp = 2, .pp = 2, .schedule = ScheduleKind::ZbH1, .layers = kAllByRows}});
}

// 26, 13, 6 and 3 rows on two and three ranks; the images are fewer than the ranks or no multiple
// of them.
TEST(ParityOfSpatialNets, RowsAndImagesThatRanksDoNotDivide) {
  const HybridNet net = with_size(kConvNet, 26);
  for (const int64_t images : {1, 3}) {
    const LayoutRun one = run_of(plan_of_hybrid(net, {.images = images}), 2);
    for (const int tp : {2, 3}) {
      SCOPED_TRACE(testing::Message() << images << " images, tp " << tp);
      expect_near(
          run_of(plan_of_hybrid(net, {.tp = tp, .layers = kAllByRows, .images = images}), 2), one);
    }
  }
}

TEST(ParityOfSpatialNets, ResidualBlocksAndDenseLayersInParts) {
  expect_near_one_rank(kResNet,
                       {{.tp = 2, .recompute = Recompute::Selective, .layers = kAllByRows}});
  expect_near_one_rank(kAlexNet, {{.tp = 2, .layers = kLastByData}});
}
// Memory and traffic are as planned; losses differ by what bf16 rounds.
TEST(ParityOfSpatialNets, InBf16) {
  const auto run_in_bf16 = [](const HybridLayout& layout) {
    RunConfig config = hybrid_config_of(kConvNet, layout);
    config.precision.compute = ComputeChoice::Bf16;
    return run_of(make_plan(config, {}).value(), 1);
  };
  const double one = run_in_bf16({}).losses.front();
  EXPECT_NEAR(run_in_bf16({.tp = 2, .layers = kAllByRows}).losses.front(), one, 4e-3 * one);
}

TEST(ParityOfSpatialNetsInFull, OtherLayouts) {
  expect_near_one_rank(kResNet, {{.tp = 4, .layers = kAllByRows},
                                 {.dp = 2, .tp = 2, .pp = 2, .zero = 3, .layers = kAllByRows}});
  expect_near_one_rank(kAlexNet, {{.dp = 2, .tp = 2, .zero = 2, .layers = kLastByData},
                                  {.tp = 3, .layers = kLastByData}});
}

// Per micro-batch of B images on p ranks, all convolutions with a window of 3 rows: two rows are
// sent at each of p - 1 borders, and their gradients back, but not those of the samples. The sums
// of a batch norm over p B blocks are gathered twice. The X features that the head reads go from
// rows to whole images and back; then they are gathered twice, and their gradients summed. The
// softmax has 3 p numbers of an image. Once per step the gradients of the convolutions are summed.
// Those of the first one are so few that every rank sends them to every other.
int64_t bytes_by_rows(const ModelSpec& model, int64_t p, int64_t B, int64_t microbatches) {
  int64_t numbers = 0, sums = 0;
  for (int64_t i = 0; i <= model.layers; ++i) {
    const ImageBlock block = block_of(model, i);
    const int64_t shrink = block.pool_before > 0 ? block.pool_before : 1;
    numbers += (i == 0 ? 1 : 2) * 2 * (p - 1) * B * (block.width / shrink) * block.channels;
    numbers += 2 * (p - 1) * p * B * 2 * block.filters;
    sums += (i == 0 ? p : 2) * (p - 1) * 9 * block.channels * block.filters;
  }
  const int64_t X = block_of(model, model.layers + 1).features();
  numbers += 2 * (p - 1) * B * X / p + (p - 1) * B * (3 * X + 3 * p);
  return 4 * (microbatches * numbers + sums);
}

TEST(ParityOfSpatialNets, SendTheClosedForm) {
  for (const int tp : {2, 4}) {
    SCOPED_TRACE(testing::Message() << "tp " << tp);
    const RunPlan plan = plan_of_hybrid(with_size(kConvNet, 32), {.tp = tp, .layers = kAllByRows});
    const int64_t bytes = bytes_by_rows(plan.model, tp, 8, 2);
    EXPECT_EQ(planned_bytes(plan), bytes);
    EXPECT_EQ(run_of(plan, 2).sent_bytes.at("tp"), 2 * bytes);
  }
}

}  // namespace
}  // namespace trireme
