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

}  // namespace
}  // namespace trireme
