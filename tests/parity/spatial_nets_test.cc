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

const std::vector<LayerRule> kSpatial = {{"conv*", LayerStrategy::Spatial}};

std::vector<LayerRule> spatial_but(const std::string& by_data) {
  return {{by_data, LayerStrategy::Data}, kSpatial.front()};
}

TEST(ParityOfSpatialNets, NetsWithBatchNorm) {
  expect_near_one_rank(kConvNet, {{.tp = 1, .layers = kSpatial},
                                  {.tp = 2, .layers = kSpatial},
                                  {.tp = 2, .recompute = Recompute::Full, .layers = kSpatial},
                                  {.tp = 4, .layers = spatial_but("layers.2.*")},
                                  {.dp = 2, .tp = 2, .zero = 1, .layers = kSpatial}});
}

// 18, 9, 4 and 2 rows: the ranks have unequal numbers of rows.
TEST(ParityOfSpatialNets, RowsThatRanksDoNotDivide) {
  HybridNet net = kConvNet;
  net.image_size = 18;
  expect_near_one_rank(
      net, {{.tp = 2, .layers = kSpatial}, {.tp = 4, .layers = spatial_but("layers.2.*")}});
}

TEST(ParityOfSpatialNets, ResidualBlocks) {
  expect_near_one_rank(kResNet, {{.tp = 2, .recompute = Recompute::Selective, .layers = kSpatial},
                                 {.tp = 4, .layers = kSpatial}});
}

}  // namespace
}  // namespace trireme
