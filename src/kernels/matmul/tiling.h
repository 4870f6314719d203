#pragma once

#include <cstdint>

namespace trireme {

// Rows of c that are in registers together, in one unrolled product.
inline constexpr int64_t kGroupRows = 6;

// The most columns of a tile if rows of a are packed for it: whole panels.
inline constexpr int64_t kMostPackedCols = 1024;

// How c is cut into tiles for threads, and k into blocks for caches. It does not change any bit of
// c.
struct Tiling {
  int64_t tile_rows = 0;
  int64_t tile_cols = 0;    // a multiple of the panel's
  int64_t block_steps = 0;  // steps of k for which b is packed at a time
  int64_t num_row_blocks = 0;
  int64_t num_col_blocks = 0;
  int64_t tiles_later = 0;  // from a tile to that which its thread is likely to take next
};

// The panels of b are packed from one of these. Patches of pixels take longer to pack, most of all
// if they have to be copied first, so fewer tiles should read the same ones.
enum class PanelSource { Matrix, Pixels, CopiedPixels };

struct TilingRequest {
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t steps = 0;  // number of steps of k
  int64_t panel_cols = 0;
  bool packs_a = false;   // rows of a are packed for every tile, so tiles should be wide
  bool widens_a = false;  // rows of a are copied for every tile, so tiles should not be narrow
  int64_t most_packed_cols = kMostPackedCols;
  PanelSource panels = PanelSource::Matrix;  // another one only if a is packed
  int64_t num_threads = 1;
  int64_t group_rows = kGroupRows;  // rows that one unrolled product multiplies
};

Tiling choose_tiling(const TilingRequest& request);

// The parts of a thread's workspace begin at these bytes. Before them lies one key.
struct WorkspaceOffsets {
  int64_t bias = 0;
  int64_t b_panels = 0;  // of a block of k, for all columns of a tile
  int64_t a_rows = 0;    // packed or widened
  int64_t sums = 0;      // of a tile, if c itself cannot hold them
  int64_t end = 0;
};

inline constexpr int64_t kWorkspaceLanes = 16;

// `sub_rows` rows of a are packed or widened at a time.
WorkspaceOffsets workspace_offsets(const Tiling& tiling, int64_t sub_rows);

}  // namespace trireme
