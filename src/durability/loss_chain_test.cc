#include "durability/loss_chain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace trireme {
namespace {

// Solves the equations of the mean times to loss T from every state by elimination:
// (up + down) T[j] - up T[j + 1] - down T[j - 1] = 1, and T is 0 once the block is lost.
double solved_mean_time(const std::vector<double>& up, const std::vector<double>& down) {
  constexpr size_t kMostStates = 6;
  const size_t size = std::min(up.size(), kMostStates);
  double rows[kMostStates][kMostStates + 1] = {};
  for (size_t j = 0; j < size; ++j) {
    rows[j][j] = up[j] + (j > 0 ? down[j] : 0.0);
    if (j > 0) rows[j][j - 1] = -down[j];
    if (j + 1 < size) rows[j][j + 1] = -up[j];
    rows[j][size] = 1.0;
  }
  for (size_t j = size; j-- > 1;) {  // the last state first
    const double factor = rows[j - 1][j] / rows[j][j];
    for (size_t column = 0; column <= size; ++column) {
      rows[j - 1][column] -= factor * rows[j][column];
    }
  }
  return rows[0][size] / rows[0][0];
}

TEST(LossChain, TheMeanTimeToLossSolvesItsEquations) {
  std::mt19937_64 random(1);
  const auto rate = [&] { return std::exp(std::uniform_real_distribution<>(-2.0, 2.0)(random)); };
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<double> up, down;
    for (int state = 0; state < 1 + trial % 6; ++state) {
      up.push_back(rate());
      down.push_back(rate());
    }
    EXPECT_NEAR(mean_time_to_loss_s(up, down) / solved_mean_time(up, down), 1.0, 1e-9);
  }
}

// MTTDL = (3 l + r) / (2 l^2) for two copies (Patterson, Gibson and Katz 1988).
TEST(LossChain, TwoCopiesHaveTheTextbooksMeanTime) {
  const double l = 1e-3, r = 0.7;
  const std::vector<double> up{2 * l, l}, down{0.0, r};
  EXPECT_NEAR(mean_time_to_loss_s(up, down) / ((3 * l + r) / (2 * l * l)), 1.0, 1e-12);
}

StorageCluster cluster_of(int64_t servers, double repair_bytes_per_s, double detect_s) {
  return {.servers = servers,
          .disks_per_server = 4,
          .disk_bytes = 1e12,
          .bytes_per_s = 1e12,
          .repair_bytes_per_s = repair_bytes_per_s,
          .detect_s = detect_s,
          .disk_losses_per_year = 0.02,
          .server_losses_per_year = 0.005};
}

TEST(LossChain, MoreParityMoreRepairAndFasterDetectionLoseLess) {
  for (const int num_data : {1, 2, 4, 8}) {
    for (const int64_t servers : {20, 1000}) {
      double with_less_parity = 1e300;
      for (int num_parity = 1; num_parity <= 5; ++num_parity) {
        const ParityCode code{num_data, num_parity};
        const auto events = [&](double repair, double detect_s) {
          const PlacedBlocks placed(cluster_of(servers, repair, detect_s), code);
          EXPECT_LT(placed.repair_share(), 1.0);
          return chain_losses(placed).events_per_year;
        };
        const double now = events(1e10, 600.0);
        EXPECT_GT(now, 0.0);
        EXPECT_LT(now, with_less_parity) << num_data << "+" << num_parity;
        EXPECT_LT(events(2e10, 600.0), now) << num_data << "+" << num_parity;
        EXPECT_LT(events(1e10, 300.0), now) << num_data << "+" << num_parity;
        with_less_parity = now;
      }
    }
  }
}

// Moments with a loss are never more than lost blocks, and they are the same where two blocks
// hardly ever share num_parity + 1 units.
TEST(LossChain, BlocksThatShareTheirUnitsAreLostInOneMoment) {
  const PlacedBlocks few(cluster_of(10, 1e10, 60.0), {2, 1});
  EXPECT_LT(chain_losses(few).events_per_year, 1e-3 * chain_losses(few).blocks_per_year);
  const PlacedBlocks many(cluster_of(10000, 1e13, 60.0), {8, 3});
  EXPECT_NEAR(chain_losses(many).events_per_year / chain_losses(many).blocks_per_year, 1.0, 1e-3);
}

}  // namespace
}  // namespace trireme
