#include "kernels/matmul/tiling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "schema/workspace.h"

namespace trireme {
namespace {

constexpr int64_t kExtents[] = {1, 6, 63, 96, 128, 384, 513, 768, 1152, 2304, 3072, 50257};
constexpr int64_t kSteps[] = {0, 1, 63, 128, 384, 512, 1025, 4096};

constexpr PanelSource kPanelSources[] = {PanelSource::Matrix, PanelSource::Pixels,
                                         PanelSource::CopiedPixels};

template <typename Check>
void for_all_requests(Check&& check) {
  for (int64_t rows : kExtents) {
    for (int64_t cols : kExtents) {
      for (int64_t steps : kSteps) {
        for (bool packs_a : {false, true}) {
          for (int64_t most_cols : {256, 1024}) {
            for (int64_t threads : {1, 2, 7, 64}) {
              for (PanelSource panels : kPanelSources) {
                if (panels != PanelSource::Matrix && !packs_a) continue;
                check(TilingRequest{.rows = rows,
                                    .cols = cols,
                                    .steps = steps,
                                    .panel_cols = 64,
                                    .packs_a = packs_a,
                                    .most_packed_cols = most_cols,
                                    .panels = panels,
                                    .num_threads = threads});
              }
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

TEST(Tiling, AThreadsWorkspaceHoldsATile) {
  constexpr int64_t kSubRows = 144;
  for_all_requests([](const TilingRequest& request) {
    const Tiling t = choose_tiling(request);
    ASSERT_LE(workspace_offsets(t, kSubRows).end, kWorkspaceBytesPerThread);
    ASSERT_LE(workspace_offsets(t, t.tile_rows).end, kWorkspaceBytesPerThread);
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

// Returns the work of the busiest thread over that of the average one, if a thread takes the next
// tile as soon as it is free.
double imbalance(const Tiling& t, const TilingRequest& request) {
  std::vector<int64_t> work(size_t(request.num_threads));
  int64_t all = 0;
  for (int64_t tile = 0; tile < t.num_row_blocks * t.num_col_blocks; ++tile) {
    const int64_t row = tile % t.num_row_blocks * t.tile_rows;
    const int64_t col = tile / t.num_row_blocks * t.tile_cols;
    const int64_t cols = std::min(t.tile_cols, request.cols - col);
    const int64_t panels = (cols + request.panel_cols - 1) / request.panel_cols;
    const int64_t size = std::min(t.tile_rows, request.rows - row) * panels;
    *std::min_element(work.begin(), work.end()) += size;
    all += size;
  }
  return double(*std::max_element(work.begin(), work.end()) * request.num_threads) / double(all);
}

// Rows are in groups of 6, so halves of 64 rows are 36 and 28.
TEST(Tiling, ThreadsShareOutTheGradientsOfFilters) {
  for (PanelSource panels : {PanelSource::Pixels, PanelSource::CopiedPixels}) {
    for (int64_t filters : {64, 128, 192, 256, 384, 512}) {
      for (int64_t elements : {147, 363, 576, 1152, 1600, 2304, 4608}) {
        for (int64_t threads : {2, 3, 4}) {
          const TilingRequest request{.rows = filters,
                                      .cols = elements,
                                      .steps = 12544,
                                      .panel_cols = 64,
                                      .packs_a = true,
                                      .panels = panels,
                                      .num_threads = threads};
          const Tiling t = choose_tiling(request);
          const bool is_smallest = t.tile_rows <= 48 && t.tile_cols == 64;
          EXPECT_TRUE(is_smallest || imbalance(t, request) <= 1.3)
              << filters << " x " << elements << ", " << threads
              << " threads: " << imbalance(t, request);
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme
