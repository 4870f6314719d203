#include "program/split_layers.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <random>

namespace trireme {
namespace {

using Split = std::vector<int>;

struct Quality {
  double dearest = 0;
  double squares = 0;
};

Quality quality(const std::vector<double>& costs, const Split& split, const EndCosts& ends) {
  Quality q;
  size_t layer = 0;
  for (size_t stage = 0; stage < split.size(); ++stage) {
    double cost = (stage == 0 ? ends.first : 0) + (stage + 1 == split.size() ? ends.last : 0);
    for (int i = 0; i < split[stage]; ++i) cost += costs[layer++];
    q.dearest = std::max(q.dearest, cost);
    q.squares += cost * cost;
  }
  return q;
}

// Visits every split of the layers into stages, of which the last has at least `least_last`.
void for_each_split(int layers, int stages, int least_last, Split& prefix,
                    const std::function<void(const Split&)>& visit) {
  if (stages == 1) {
    prefix.push_back(layers);
    visit(prefix);
    prefix.pop_back();
    return;
  }
  for (int n = 1; n <= layers - (stages - 2) - least_last; ++n) {
    prefix.push_back(n);
    for_each_split(layers - n, stages - 1, least_last, prefix, visit);
    prefix.pop_back();
  }
}

TEST(SplitLayers, IsTheBestOfAllSplits) {
  for (unsigned seed = 0; seed < 120; ++seed) {
    std::mt19937 random(seed);
    const bool last_needs_layer = seed % 2 == 0;
    const int layers = 1 + static_cast<int>(random() % 10);
    const int stages = 1 + static_cast<int>(random() % (layers + (last_needs_layer ? 0 : 1)));
    std::vector<double> costs(layers);
    for (double& cost : costs) cost = static_cast<double>(random() % 9);
    const EndCosts ends{static_cast<double>(random() % 5), static_cast<double>(random() % 12),
                        last_needs_layer};
    const Split split = split_layers(costs, stages, ends).value();
    ASSERT_EQ(std::accumulate(split.begin(), split.end(), 0), layers);
    const Quality found = quality(costs, split, ends);
    Quality best{1e300, 1e300};
    Split prefix;
    for_each_split(layers, stages, last_needs_layer ? 1 : 0, prefix, [&](const Split& other) {
      const Quality q = quality(costs, other, ends);
      if (q.dearest < best.dearest || (q.dearest == best.dearest && q.squares < best.squares)) {
        best = q;
      }
    });
    ASSERT_EQ(found.dearest, best.dearest) << "seed " << seed;
    ASSERT_EQ(found.squares, best.squares) << "seed " << seed;
  }
}

TEST(SplitLayers, GivesTheStagesWithEmbeddingAndHeadFewerLayers) {
  const std::vector<double> equal(30, 1.0);
  EXPECT_EQ(split_layers(equal, 8, {1, 1}).value(), (Split{3, 4, 4, 4, 4, 4, 4, 3}));
  EXPECT_EQ(split_layers(std::vector<double>(12, 1.0), 4).value(), (Split{3, 3, 3, 3}));
  EXPECT_EQ(split_layers(equal, 1).value(), (Split{30}));
}

TEST(SplitLayers, LeavesAnExpensiveEndAStageOfItsOwn) {
  const std::vector<double> equal(6, 1.0);
  EXPECT_EQ(split_layers(equal, 3, {0, 3, false}).value(), (Split{3, 3, 0}));
  EXPECT_EQ(split_layers(equal, 3, {0, 3, true}).value(), (Split{3, 2, 1}));
  EXPECT_EQ(split_layers(equal, 3, {0, 1, false}).value(), (Split{3, 2, 1}));
  EXPECT_EQ(split_layers(equal, 7, {0, 1, false}).value(), (Split{1, 1, 1, 1, 1, 1, 0}));
}

TEST(SplitLayers, RefusesMoreStagesThanLayers) {
  const auto refused = split_layers(std::vector<double>(3, 1.0), 4);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::Infeasible);
  EXPECT_NE(refused.error().message.find("at most 3 stages"), std::string::npos);
  const EndCosts alone{.last_needs_layer = false};
  EXPECT_TRUE(split_layers(std::vector<double>(3, 1.0), 4, alone).ok());
  const auto too_many = split_layers(std::vector<double>(3, 1.0), 5, alone);
  ASSERT_FALSE(too_many.ok());
  EXPECT_NE(too_many.error().message.find("at most 4 stages"), std::string::npos);
  EXPECT_EQ(split_layers(std::vector<double>(3, 1.0), 0).error().kind, ErrorKind::Usage);
  EXPECT_EQ(split_layers(std::vector<double>{1, -1}, 1).error().kind, ErrorKind::Usage);
}

}  // namespace
}  // namespace trireme
