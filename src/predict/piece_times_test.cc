#include "predict/piece_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace trireme {
namespace {

PieceTimes some_pieces(std::mt19937& random) {
  std::uniform_real_distribution<double> seconds(0.0, 1.0);
  return {.pieces = 1 + int(random() % 8),
          .goes_round = random() % 2 == 0,
          .matmul_s = 4.0 * seconds(random),
          .weights_s = 0.2 * seconds(random),
          .transfer_s = seconds(random)};
}

// Replays matmuls and transfers in their order of dependence.
double replayed_s(const PieceTimes& p) {
  const double piece_s = (p.matmul_s + p.split_s()) / p.pieces;
  double computed_s = 0.0, arrived_s = 0.0;
  for (int piece = 0; piece < p.pieces; ++piece) {
    if (p.goes_round) {
      // The next piece is sent when this matmul begins, and awaited after it.
      const double begin_s = computed_s;
      computed_s = begin_s + piece_s;
      if (piece + 1 < p.pieces) computed_s = std::max(computed_s, begin_s + p.transfer_s);
    } else {
      computed_s += piece_s;
      arrived_s = std::max(arrived_s, computed_s) + p.transfer_s;
    }
  }
  return std::max(computed_s, arrived_s);
}

TEST(PieceTimes, AreThoseOfTheLoopsThatRun) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const PieceTimes p = some_pieces(random);
    EXPECT_NEAR(p.matmul_s + p.exposed_s(), replayed_s(p), 1e-9);
  }
}

// A transfer in pieces is never slower than the whole matmul followed by all transfers, except for
// the cost of smaller matmuls. With a fast link only that cost is left and, for sums, the last
// transfer.
TEST(PieceTimes, HideNoLessThanNothingAndNoMoreThanTheTransfers) {
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    PieceTimes p = some_pieces(random);
    EXPECT_LE(p.exposed_s(), p.moved_s() + p.split_s() + 1e-12);
    EXPECT_GE(p.exposed_s(), p.split_s());
    EXPECT_GE(p.matmul_s + p.exposed_s() + 1e-12, std::max(p.matmul_s, p.moved_s()));
    p.transfer_s = 0.0;
    EXPECT_DOUBLE_EQ(p.exposed_s(), p.split_s());
    p.pieces = 1;
    EXPECT_EQ(p.exposed_s(), 0.0);
  }
}

}  // namespace
}  // namespace trireme
