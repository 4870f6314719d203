#include "durability/draw_losses.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace trireme {
namespace {

constexpr int64_t kSamples = 40'000;

StorageCluster cluster_with(double repair_bytes_per_s, double detect_s) {
  return {.servers = 400,
          .disks_per_server = 6,
          .domains = 100,
          .disk_bytes = 2e12,
          .bytes_per_s = 1e12,
          .repair_bytes_per_s = repair_bytes_per_s,
          .detect_s = detect_s,
          .disk_losses_per_year = 0.02};
}

// A difference of two half widths is four standard errors.
void expect_same(const PlacedBlocks& placed, const std::string& what) {
  const DrawnLosses drawn = draw_losses(placed, 7, kSamples);
  const LossRate chain = chain_losses(placed);
  EXPECT_GT(chain.events_per_year, 0.0) << what;
  EXPECT_NEAR(drawn.rate.events_per_year, chain.events_per_year,
              2.0 * drawn.events_half_width + 1e-3 * chain.events_per_year)
      << what;
  EXPECT_NEAR(drawn.rate.blocks_per_year, chain.blocks_per_year,
              2.0 * drawn.blocks_half_width + 1e-3 * chain.blocks_per_year)
      << what;
  EXPECT_LT(drawn.events_half_width, 0.1 * drawn.rate.events_per_year) << what;
}

// Where the chain's means are all that counts, both must agree: detection takes nearly all of the
// time, or a single loss is borne.
TEST(DrawLosses, AgreeWithTheClosedFormWithinTheirOwnInterval) {
  for (const ParityCode code :
       {ParityCode{1, 1}, {1, 2}, {2, 1}, {4, 2}, {8, 3}, {16, 4}, {4, 5}}) {
    const std::string what = std::to_string(code.num_data) + "+" + std::to_string(code.num_parity);
    StorageCluster cluster = cluster_with(1e16, 900.0);
    expect_same({cluster, code}, what + ", disks");
    cluster.server_losses_per_year = 0.004;
    cluster.domain_losses_per_year = 0.001;
    expect_same({cluster, code}, what + ", disks, servers and domains");
    cluster.worst_first = false;
    expect_same({cluster, code}, what + ", in order");
    if (code.num_parity == 1) expect_same({cluster_with(1e11, 1.0), code}, what + ", rebuilding");
  }
}

// Where rebuilding takes most of the time, the chain still is close.
TEST(DrawLosses, AreNearTheClosedFormWhileRebuildingIsSlow) {
  for (const ParityCode code : {ParityCode{1, 2}, {4, 2}, {8, 3}}) {
    const PlacedBlocks placed(cluster_with(1e11, 60.0), code);
    const double drawn = draw_losses(placed, 7, kSamples).rate.events_per_year;
    EXPECT_NEAR(drawn / chain_losses(placed).events_per_year, 1.0, 0.1);
  }
}

TEST(DrawLosses, DependOnTheSeedAloneAndTheirIntervalShrinksWithTheRootOfTheSamples) {
  const PlacedBlocks placed(cluster_with(1e11, 900.0), {4, 2});
  const DrawnLosses first = draw_losses(placed, 1, kSamples);
  EXPECT_EQ(first.rate.events_per_year, draw_losses(placed, 1, kSamples).rate.events_per_year);
  EXPECT_NE(first.rate.events_per_year, draw_losses(placed, 2, kSamples).rate.events_per_year);
  const DrawnLosses fewer = draw_losses(placed, 1, kSamples / 16);
  EXPECT_NEAR(fewer.events_half_width / first.events_half_width, 4.0, 0.6);
}

TEST(DrawLosses, MoreParityAndMoreRepairLoseLess) {
  double with_less_parity = 1e300;
  for (int num_parity = 1; num_parity <= 4; ++num_parity) {
    const ParityCode code{4, num_parity};
    const double now = draw_losses({cluster_with(1e11, 60.0), code}, 1, 4000).rate.events_per_year;
    EXPECT_LT(now, with_less_parity);
    EXPECT_LT(draw_losses({cluster_with(4e11, 60.0), code}, 1, 4000).rate.events_per_year, now);
    with_less_parity = now;
  }
}

// Follows every block of a small cluster from loss to loss. Disks are lost at random times, and
// what a block has lost is rebuilt `detect_s` after its newest loss.
class FollowedBlocks {
 public:
  FollowedBlocks(int num_disks, int num_blocks, ParityCode code, uint64_t seed)
      : random_(seed), code_(code), on_disk_(size_t(num_disks)), blocks_(size_t(num_blocks)) {}

  LossRate follow(double disk_losses_per_year, double detect_years, int num_losses) {
    LossRate sum;
    std::exponential_distribution<> wait(disk_losses_per_year * double(on_disk_.size()));
    double now = 0.0;
    for (int loss = 0; loss < num_losses; ++loss) {
      if (loss % 64 == 0) place();
      now += wait(random_);
      const int num_lost = lose(int(random_() % on_disk_.size()), now, detect_years);
      sum.events_per_year += num_lost > 0 ? 1.0 : 0.0;
      sum.blocks_per_year += num_lost;
    }
    return {sum.events_per_year / now, sum.blocks_per_year / now};
  }

 private:
  struct FollowedBlock {
    std::vector<int> lost;  // disks
    double whole_at = 0.0;
  };

  void place() {
    for (std::vector<int>& blocks : on_disk_) blocks.clear();
    std::vector<int> disks(on_disk_.size());
    for (size_t disk = 0; disk < disks.size(); ++disk) disks[disk] = int(disk);
    for (size_t block = 0; block < blocks_.size(); ++block) {
      std::shuffle(disks.begin(), disks.end(), random_);
      blocks_[block].lost.clear();
      for (int chunk = 0; chunk < code_.num_data + code_.num_parity; ++chunk) {
        on_disk_[size_t(disks[size_t(chunk)])].push_back(int(block));
      }
    }
  }

  int lose(int disk, double now, double detect_years) {
    int num_lost = 0;
    for (const int number : on_disk_[size_t(disk)]) {
      FollowedBlock& block = blocks_[size_t(number)];
      if (block.whole_at <= now) block.lost.clear();
      if (std::ranges::count(block.lost, disk) > 0) continue;
      block.lost.push_back(disk);
      block.whole_at = now + detect_years;
      if (int(block.lost.size()) <= code_.num_parity) continue;
      block.lost.clear();
      ++num_lost;
    }
    return num_lost;
  }

  std::mt19937_64 random_;
  const ParityCode code_;
  std::vector<std::vector<int>> on_disk_;
  std::vector<FollowedBlock> blocks_;
};

TEST(DrawLosses, AreThoseOfASmallClusterWhoseBlocksAreFollowedOneByOne) {
  constexpr int kDisks = 12;
  struct Case {
    ParityCode code;
    double detect_years;
    int num_blocks;
    // Losses that fall into the window of another sequence are counted twice by the simulation.
    // Twelve disks have that many losses within one window or two.
    double overlap;
  };
  for (const auto& [code, detect_years, num_blocks, overlap] :
       {Case{{2, 1}, 2e-3, 40, 0.05}, Case{{1, 2}, 1e-2, 120, 0.15}}) {
    const int chunks = code.num_data + code.num_parity;
    const StorageCluster cluster{.servers = kDisks,
                                 .disk_bytes = double(num_blocks * chunks) / kDisks,
                                 .chunk_bytes = 1.0,
                                 .bytes_per_s = 1.0,
                                 .repair_bytes_per_s = 1e9,
                                 .detect_s = detect_years * kSecondsOfYear,
                                 .disk_losses_per_year = 1.0};
    const PlacedBlocks placed(cluster, code);
    ASSERT_EQ(placed.blocks, num_blocks);
    const LossRate followed =
        FollowedBlocks(kDisks, num_blocks, code, 3).follow(1.0, detect_years, 600'000);
    const DrawnLosses drawn = draw_losses(placed, 7, kSamples);
    EXPECT_NEAR(drawn.rate.events_per_year / followed.events_per_year, 1.0, overlap);
    EXPECT_NEAR(drawn.rate.blocks_per_year / followed.blocks_per_year, 1.0, overlap);
  }
}

}  // namespace
}  // namespace trireme
