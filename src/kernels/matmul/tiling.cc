#include "kernels/matmul/tiling.h"

#include <algorithm>

namespace trireme {
namespace {

int64_t blocks(int64_t extent, int64_t block) { return (extent + block - 1) / block; }
int64_t rounded_up(int64_t extent, int64_t unit) { return blocks(extent, unit) * unit; }

// True if every thread gets the same number of tiles, or so many that one more or less does not
// matter.
bool balances(int64_t num_tiles, int64_t num_threads, int64_t least) {
  if (num_tiles >= 16 * num_threads) return true;
  return num_tiles >= least * num_threads && num_tiles % num_threads == 0;
}

int64_t num_tiles(const TilingRequest& request, int64_t tile_rows, int64_t tile_cols) {
  return blocks(request.rows, tile_rows) * blocks(request.cols, tile_cols);
}

// True if the work of the threads differs little. They take the tiles in their order, and those of
// the last columns, which may be narrower, come last.
bool shares_work(const TilingRequest& request, const Tiling& tiling) {
  const int64_t threads = request.num_threads;
  const int64_t heights = blocks(request.rows, tiling.tile_rows);
  const int64_t widths = blocks(request.cols, tiling.tile_cols);
  const int64_t least = request.panels == PanelSource::Pixels ? 2 : 1;
  if (heights * widths < least * threads) return false;
  const int64_t panels = blocks(request.cols, request.panel_cols);
  const int64_t width = tiling.tile_cols / request.panel_cols;
  const int64_t last = panels - (widths - 1) * width;
  const int64_t wide = heights * (widths - 1), more = wide % threads;  // threads with one more
  const int64_t busiest = std::max((wide + threads - 1) / threads * width,
                                   wide / threads * width + blocks(heights, threads - more) * last);
  return 100 * busiest * threads <= 115 * heights * panels;
}

constexpr int64_t kNarrowSteps = 1024;
constexpr int64_t kPanelDwords = 8192;  // of a panel, if k has several blocks and panels are narrow
constexpr int64_t kPackedDwords = int64_t{256} << 10;  // of b, with packed rows of a beside them

// Returns the steps of k for which b is packed at a time: blocks of nearly equal size.
int64_t block_steps(const TilingRequest& request, int64_t tile_cols) {
  constexpr int64_t kUnit = 64;
  int64_t most = kNarrowSteps;
  if (request.packs_a) {
    most = std::min(most, kPackedDwords / tile_cols / kUnit * kUnit);
  } else if (request.steps > kNarrowSteps) {
    most = std::max<int64_t>(256, kPanelDwords / request.panel_cols);
  }
  const int64_t num_blocks = std::max<int64_t>(1, blocks(request.steps, most));
  return std::min(request.steps, rounded_up(blocks(request.steps, num_blocks), kUnit));
}

}  // namespace

Tiling choose_tiling(const TilingRequest& request) {
  // The packed rows of a and one panel of b stay in a 1 MiB L2 cache. Rows of a that are packed
  // serve all columns of a tile, so these tiles are as wide as they can be. If k has several
  // blocks, b is packed again for every tile, whatever the tile's width. Then wide tiles are
  // better, because they read a less often.
  const int64_t group_rows = request.group_rows;
  const int64_t min_rows = rounded_up(48, group_rows);
  const int64_t max_rows = (request.packs_a ? 384 : 512) / group_rows * group_rows;
  const bool wide = request.packs_a || request.steps > kNarrowSteps;
  const int64_t max_cols = request.packs_a    ? request.most_packed_cols
                           : wide             ? 256
                           : request.widens_a ? 128
                                              : 64;
  Tiling tiling;
  const int64_t col_blocks = request.packs_a ? blocks(request.cols, max_cols) : 1;
  tiling.tile_cols =
      std::min(max_cols, rounded_up(blocks(request.cols, col_blocks), request.panel_cols));
  int64_t row_blocks = blocks(request.rows, max_rows);
  const auto rows_of = [&](int64_t blocks_of_rows) {
    return rounded_up(blocks(request.rows, blocks_of_rows), group_rows);
  };
  tiling.tile_rows = rows_of(row_blocks);
  const auto is_balanced = [&] {
    if (request.panels != PanelSource::Matrix) return shares_work(request, tiling);
    return balances(num_tiles(request, tiling.tile_rows, tiling.tile_cols), request.num_threads,
                    request.packs_a || !wide ? 4 : 2);
  };
  const bool keeps_high = request.packs_a && request.panels != PanelSource::CopiedPixels;
  while (request.num_threads > 1 && !is_balanced()) {
    const bool is_high = tiling.tile_rows > (keeps_high ? 2 * min_rows : min_rows);
    if (wide && tiling.tile_cols > 64 && !(request.packs_a && is_high)) {
      tiling.tile_cols = rounded_up(tiling.tile_cols / 2, request.panel_cols);
    } else if (tiling.tile_rows > min_rows) {
      tiling.tile_rows = rows_of(++row_blocks);
    } else {
      break;
    }
  }
  tiling.block_steps = block_steps(request, tiling.tile_cols);
  tiling.num_row_blocks = blocks(request.rows, tiling.tile_rows);
  tiling.num_col_blocks = blocks(request.cols, tiling.tile_cols);
  tiling.tiles_later = request.num_threads;
  return tiling;
}

WorkspaceOffsets workspace_offsets(const Tiling& tiling, int64_t sub_rows) {
  constexpr int64_t kNumberBytes = 4;  // of fp32, or of a step
  const int64_t steps = rounded_up(tiling.block_steps, kWorkspaceLanes);
  WorkspaceOffsets at;
  at.bias = 64;
  at.b_panels = at.bias + tiling.tile_cols * kNumberBytes;
  at.a_rows = at.b_panels + tiling.tile_cols * steps * kNumberBytes;
  at.sums = at.a_rows + sub_rows * (steps + kWorkspaceLanes) * kNumberBytes;
  at.end = at.sums + tiling.tile_rows * tiling.tile_cols * kNumberBytes;
  return at;
}

}  // namespace trireme
