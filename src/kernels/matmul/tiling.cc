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

}  // namespace

Tiling choose_tiling(const TilingRequest& request) {
  // The panels of b and the packed rows of a stay in a 1 MiB L2 cache.
  const int64_t group_rows = request.group_rows;
  const int64_t min_rows = rounded_up(48, group_rows);
  const int64_t max_rows = (request.packs_a ? 384 : 512) / group_rows * group_rows;
  // If k has several blocks, b is packed again for every tile, whatever the tile's width. Then wide
  // tiles are better, because they read a less often.
  constexpr int64_t kNarrowSteps = 1024;
  const bool wide = request.packs_a || request.steps > kNarrowSteps;
  const int64_t max_cols = wide ? 256 : request.widens_a ? 128 : 64;
  Tiling tiling;
  tiling.block_steps = std::min<int64_t>(wide ? 256 : kNarrowSteps, request.steps);
  tiling.tile_cols = std::min(max_cols, rounded_up(request.cols, request.panel_cols));
  int64_t row_blocks = blocks(request.rows, max_rows);
  tiling.tile_rows = rounded_up(blocks(request.rows, row_blocks), group_rows);
  while (request.num_threads > 1 &&
         !balances(num_tiles(request, tiling.tile_rows, tiling.tile_cols), request.num_threads,
                   request.packs_a || !wide ? 4 : 2)) {
    if (wide && tiling.tile_cols > 64 &&
        (!request.packs_a || tiling.tile_cols >= tiling.tile_rows)) {
      tiling.tile_cols = rounded_up(tiling.tile_cols / 2, request.panel_cols);
    } else if (tiling.tile_rows > min_rows) {
      ++row_blocks;
      tiling.tile_rows = rounded_up(blocks(request.rows, row_blocks), group_rows);
    } else {
      break;
    }
  }
  tiling.num_row_blocks = blocks(request.rows, tiling.tile_rows);
  tiling.num_col_blocks = blocks(request.cols, tiling.tile_cols);
  return tiling;
}

}  // namespace trireme
