#include "collectives/cost_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <vector>

#include "comm/calibrate_comm.h"
#include "comm/world.h"

namespace trireme {
namespace {

constexpr double kAlpha = 1e-5;
constexpr double kBeta = 1e-9;
const CommCost kCost{{kAlpha, kBeta}, {kAlpha, kBeta}, 0.5e-9};

PlanRequest all_reduce(Algorithm algorithm, int size, int64_t count) {
  return {.algorithm = algorithm, .size = size, .count = count};
}

TEST(CostModel, PricesAreTheClosedForms) {
  const double gamma = kCost.gamma_s_per_byte;
  for (int n : {2, 4, 8}) {
    const int levels = int(std::log2(n));
    const double bytes = 4.0 * 1024 * n;
    const auto price = [&](Algorithm a) {
      return predict_seconds(all_reduce(a, n, 1024 * n), 4, kCost);
    };
    const double share = double(n - 1) / n * bytes;
    EXPECT_NEAR(price(Algorithm::Ring), 2 * (n - 1) * kAlpha + 2 * share * kBeta + share * gamma,
                1e-12);
    EXPECT_NEAR(price(Algorithm::Doubling), levels * (kAlpha + bytes * (kBeta + gamma)), 1e-12);
    EXPECT_NEAR(price(Algorithm::HalvingDoubling),
                2 * levels * kAlpha + 2 * share * kBeta + share * gamma, 1e-12);
  }
}

TEST(CostModel, LatencyDecidesShortMessagesAndBandwidthLongOnes) {
  EXPECT_EQ(choose_algorithm(all_reduce(Algorithm::Auto, 8, 2), 4, kCost, false),
            Algorithm::Doubling);
  const Algorithm long_choice =
      choose_algorithm(all_reduce(Algorithm::Auto, 8, 1 << 22), 4, kCost, false);
  EXPECT_TRUE(long_choice == Algorithm::Ring || long_choice == Algorithm::HalvingDoubling);
  EXPECT_EQ(choose_algorithm(all_reduce(Algorithm::Auto, 8, 1 << 22), 4, kCost, true),
            Algorithm::HalvingDoubling);
}

TEST(CostModel, SlowLinksBetweenNodesMakeItHierarchical) {
  const std::vector<int> node_of = {0, 1, 0, 1, 0, 1, 0, 1};
  PlanRequest request = all_reduce(Algorithm::Auto, 8, 1 << 22);
  request.node_of = node_of;
  const CommCost slow{{1e-6, 1e-10}, {1e-5, 1e-8}, 1e-10};
  EXPECT_EQ(choose_algorithm(request, 4, slow, false), Algorithm::Hierarchical);
}

TEST(CalibrateComm, MeasuresTheSameFiniteNumbersForAllRanks) {
  for (int size : {1, 3}) {
    std::mutex mutex;
    std::vector<CommCost> costs;
    run_ranks(size, {.timeout_s = 60, .nodes = 2}, [&](World& world) {
      const CommCost cost = calibrate_comm(world);
      const std::lock_guard lock(mutex);
      costs.push_back(cost);
    });
    for (const CommCost& cost : costs) {
      EXPECT_EQ(cost.inside.alpha_s, costs[0].inside.alpha_s);
      EXPECT_EQ(cost.across.beta_s_per_byte, costs[0].across.beta_s_per_byte);
      for (double x : {cost.inside.alpha_s, cost.inside.beta_s_per_byte, cost.across.alpha_s,
                       cost.across.beta_s_per_byte, cost.gamma_s_per_byte}) {
        EXPECT_TRUE(x > 0 && x < 1) << x;
      }
    }
  }
}

TEST(CalibrateComm, CallsOfAWorldCostAllItsRanksTheSame) {
  for (const int size : {1, 2, 3}) {
    std::mutex mutex;
    std::vector<MeasuredCalls> calls;
    run_ranks(size, {.timeout_s = 60, .nodes = 2}, [&](World& world) {
      const MeasuredCalls measured = measure_calls(world);
      const std::lock_guard lock(mutex);
      calls.push_back(measured);
    });
    for (const MeasuredCalls& of_rank : calls) {
      EXPECT_EQ(of_rank.ranks_per_node, std::min(size, 2));
      EXPECT_EQ(of_rank.inside, calls[0].inside);
      EXPECT_EQ(of_rank.between, calls[0].between);
      EXPECT_EQ(of_rank.core_s_per_byte, calls[0].core_s_per_byte);
      EXPECT_GE(of_rank.core_s_per_byte, 0.0);
      for (const double number : {of_rank.inside.latency_s, of_rank.inside.bytes_per_s}) {
        EXPECT_EQ(number > 0.0, size > 1);
      }
      for (const double number : {of_rank.between.latency_s, of_rank.between.bytes_per_s}) {
        EXPECT_EQ(number > 0.0, size > 2);
      }
    }
  }
}

TEST(CalibrateComm, NodesAreBlocksOfNeighboursOrEachRankIsTakenAlone) {
  const std::pair<std::vector<int>, int> cases[] = {
      {{0}, 1},          {{0, 0}, 2},       {{0, 1}, 1},       {{0, 0, 1, 1}, 2},
      {{0, 0, 1}, 2},    {{0, 1, 1}, 1},    {{0, 1, 0, 1}, 1}, {{0, 0, 1, 1, 1}, 1},
      {{0, 0, 0, 1}, 3}, {{0, 0, 1, 0}, 1}, {{5, 5, 3, 3}, 2}};
  for (const auto& [node_of, expected] : cases) {
    EXPECT_EQ(neighbours_per_node(node_of), expected);
  }
}

}  // namespace
}  // namespace trireme
