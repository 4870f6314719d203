#include "kernels/matmul/tiling.h"

#include <gtest/gtest.h>

#include "schema/workspace.h"

namespace trireme {
namespace {

constexpr int64_t kExtents[] = {1, 6, 63, 96, 128, 384, 513, 768, 1152, 2304, 3072, 50257};
constexpr int64_t kSteps[] = {0, 1, 63, 128, 384, 512, 1025, 4096};

template <typename Check>
void for_all_requests(Check&& check) {
  for (int64_t rows : kExtents) {
    for (int64_t cols : kExtents) {
      for (int64_t steps : kSteps) {
        for (bool packs_a : {false, true}) {
          for (int64_t most_cols : {256, 1024}) {
            for (int64_t threads : {1, 2, 7, 64}) {
              check(TilingRequest{.rows = rows,
                                  .cols = cols,
                                  .steps = steps,
                                  .panel_cols = 64,
                                  .packs_a = packs_a,
                                  .most_packed_cols = most_cols,
                                  .num_threads = threads});
            }
          }
        }
      }
    }
  }
}

TEST(Tiling, TilesCoverTheResultAndBlocksCoverTheSteps) {
  for_all_requests([](const TilingRequest& request) {
    const Tiling t = choose_tiling(request);
    ASSERT_GE(t.num_row_blocks * t.tile_rows, request.rows);
    ASSERT_GE(t.num_col_blocks * t.tile_cols, request.cols);
    ASSERT_LT((t.num_row_blocks - 1) * t.tile_rows, request.rows);
    ASSERT_LT((t.num_col_blocks - 1) * t.tile_cols, request.cols);
    ASSERT_EQ(t.tile_cols % request.panel_cols, 0);
    ASSERT_LE(t.block_steps, request.steps);
    ASSERT_GE(t.block_steps, std::min<int64_t>(request.steps, 1));
  });
}

// A product of patches has its copies in the second half of the workspace, and either makes all of
// its sums in place or has tiles of at most 256 columns.
TEST(Tiling, AThreadsWorkspaceHoldsATile) {
  constexpr int64_t kSubRows = 144;
  for_all_requests([](const TilingRequest& request) {
    const Tiling t = choose_tiling(request);
    ASSERT_LE(workspace_offsets(t, kSubRows).end, kWorkspaceBytesPerThread);
    ASSERT_LE(workspace_offsets(t, t.tile_rows).end, kWorkspaceBytesPerThread);
    ASSERT_LE(workspace_offsets(t, kSubRows).sums, kWorkspaceBytesPerThread / 2);
    if (request.packs_a && request.most_packed_cols == 256) {
      ASSERT_LE(workspace_offsets(t, kSubRows).end, kWorkspaceBytesPerThread / 2);
    }
  });
}

TEST(Tiling, EveryThreadGetsTilesOfALargeProduct) {
  for (bool packs_a : {false, true}) {
    for (int64_t threads : {2, 4, 8, 16}) {
      const Tiling t = choose_tiling({.rows = 3072,
                                      .cols = 768,
                                      .steps = 512,
                                      .panel_cols = 64,
                                      .packs_a = packs_a,
                                      .num_threads = threads});
      EXPECT_GE(t.num_row_blocks * t.num_col_blocks, 4 * threads);
    }
  }
}

}  // namespace
}  // namespace trireme
