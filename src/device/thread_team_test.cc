#include "device/thread_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace trireme {
namespace {

TEST(ThreadTeam, RunsEveryTileOnceForEverySizeAndCount) {
  for (int num_threads = 1; num_threads <= 4; ++num_threads) {
    ThreadTeam team(num_threads);
    for (int64_t num_tiles : {0, 1, 2, 3, 7, 64, 1000}) {
      std::vector<std::atomic<int>> visits(num_tiles);
      team.parallel_for(num_tiles, [&](int64_t tile, int thread) {
        EXPECT_LT(thread, num_threads);
        visits[tile].fetch_add(1);
      });
      for (const auto& count : visits) EXPECT_EQ(count.load(), 1);
    }
  }
}

TEST(ThreadTeam, WritesOfOneJobAreSeenByTheNext) {
  ThreadTeam team(3);
  std::vector<int64_t> values(100, 0);
  for (int round = 0; round < 2000; ++round) {
    team.parallel_for(100, [&](int64_t tile, int) { values[tile] += tile; });
  }
  for (int64_t tile = 0; tile < 100; ++tile) EXPECT_EQ(values[tile], 2000 * tile);
}

// Most threads come late to every job: the tiles of the next one are already taken, or it is over.
TEST(ThreadTeam, ThreadsThatComeLateTakeNoTileTwice) {
  ThreadTeam team(16);
  std::vector<std::atomic<int>> visits(5);
  for (int round = 1; round <= 2000; ++round) {
    const int64_t num_tiles = 2 + round % 4;
    for (int64_t tile = 0; tile < num_tiles; ++tile) visits[tile] = 0;
    team.parallel_for(num_tiles, [&](int64_t tile, int) { visits[tile].fetch_add(1); });
    for (int64_t tile = 0; tile < num_tiles; ++tile) ASSERT_EQ(visits[tile].load(), 1) << round;
  }
}

}  // namespace
}  // namespace trireme
