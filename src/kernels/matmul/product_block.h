#pragma once

// What products of every instruction set share, for *_cpu.cc files only: the workspace of a thread,
// the blocks of a tile, and the way from sums to c.

#include <algorithm>

#include "kernels/matmul/lines_ahead.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/pack.h"
#include "kernels/matmul/row_access.h"
#include "kernels/matmul/tiling.h"
#include "kernels/streamed_stores.h"

namespace trireme::TRIREME_ISA {
namespace {

// One thread's part of the stream's workspace.
struct Workspace {
  // first_key + the first column of b that b_panels hold for all of k; -1: none
  int64_t* packed_cols;
  float* bias;         // [tile_cols]
  uint32_t* b_panels;  // [panel][step][columns of a panel]
  uint32_t* a_rows;    // kSubRows rows of a, packed or widened
  float* sums;         // partial sums of the tile, if c itself cannot hold them
};

Workspace workspace_of(std::byte* base, const Tiling& tiling, int64_t sub_rows) {
  static_assert(kLanes == kWorkspaceLanes);
  const WorkspaceOffsets at = workspace_offsets(tiling, sub_rows);
  return {.packed_cols = reinterpret_cast<int64_t*>(base),
          .bias = reinterpret_cast<float*>(base + at.bias),
          .b_panels = reinterpret_cast<uint32_t*>(base + at.b_panels),
          .a_rows = reinterpret_cast<uint32_t*>(base + at.a_rows),
          .sums = reinterpret_cast<float*>(base + at.sums)};
}

// A part of one tile: rows of c, columns of c, and a range of k.
struct ProductBlock {
  int64_t row, rows, row_in_tile;
  int64_t col, cols;
  int64_t k_begin, k_count;
};

template <typename C>
void write_rows(const MatmulArgs& args, const ProductBlock& group, const float* sums,
                int64_t stride, const float* bias) {
  for (int64_t r = 0; r < group.rows; ++r) {
    C* c = args.c.row<C>(group.row + r) + group.col;
    const C* residual =
        args.residual_MN ? args.residual_MN.row<const C>(group.row + r) + group.col : nullptr;
    for (int64_t i = 0; i < group.cols; i += kLanes) {
      F32x16 x = load(sums + r * stride + i);
      if (bias) x = x + load(bias + i);
      if (residual) x = x + load_row(residual + i, group.cols - i);
      store_row(c + i, x, group.cols - i);
    }
  }
}
// Writes sums of the whole k to c, with the bias (null: none) and the residual.
void write_result(const MatmulArgs& args, const ProductBlock& group, const float* sums,
                  int64_t stride, const float* bias) {
  with_element(args.c.dtype,
               [&]<typename C>(C) { write_rows<C>(args, group, sums, stride, bias); });
}

// True if the sums can be made in c itself.
TRIREME_INLINE bool sums_in_c(const MatmulArgs& args) {
  return args.c.dtype == DType::F32 && !args.bias_N && !args.residual_MN;
}

// True if c is written past the caches: the update reads a gradient of weights long after this
// product, and the fp32 logits of a large vocabulary are larger than a core's own caches.
TRIREME_INLINE bool streams_result(const MatmulArgs& args) {
  const auto begin = reinterpret_cast<uintptr_t>(args.c.data);
  const int64_t least =
      args.form == MatmulForm::TN ? kLeastStreamedNumbers : kLeastStreamedToReader;
  return args.write == Write::Overwrite && sums_in_c(args) && args.c.rows * args.c.cols >= least &&
         args.c.stride % kLanes == 0 && begin % (kLanes * sizeof(float)) == 0;
}

// Writes sums of the whole k to a c that is streamed. The columns are whole vectors.
TRIREME_INLINE void stream_result(const MatmulArgs& args, const ProductBlock& group,
                                  const float* sums, int64_t stride) {
  for (int64_t r = 0; r < group.rows; ++r) {
    float* c = args.c.row<float>(group.row + r) + group.col;
    for (int64_t i = 0; i < group.cols; i += kRegisterLanes) {
      stream_register(c + i, load_register(sums + r * stride + i));
    }
  }
}

template <typename T>
void widen_bias(const MatmulArgs& args, const ProductBlock& block, float* bias) {
  const T* bias_N = args.bias_N.as<T>() + block.col;
  for (int64_t col = 0; col < block.cols; col += kLanes) {
    store(bias + col, load_row(bias_N + col, block.cols - col));
  }
}

// Packs the panels of a block of b, whose steps lie at the beginning of panel_dwords dwords each.
template <int64_t kWidth, typename T>
void pack_b(const MatmulArgs& args, const ProductBlock& block, int64_t panel_dwords,
            uint32_t* panel) {
  for (int64_t col = 0; col < block.cols; col += kWidth, panel += panel_dwords) {
    const int64_t cols = std::min(kWidth, block.cols - col);
    if (args.form == MatmulForm::NT) {
      pack_transposed<kWidth>(args.b.row<const T>(block.col + col) + block.k_begin, args.b.stride,
                              cols, block.k_count, panel);
    } else {
      pack_interleaved(args.b.row<const T>(block.k_begin) + block.col + col, args.b.stride,
                       block.k_count, cols, kWidth, panel);
    }
  }
}
// Copies the old values of c to the sums.
TRIREME_INLINE void load_sums(const MatmulArgs& args, const ProductBlock& group, float* sums,
                              int64_t stride) {
  for (int64_t r = 0; r < group.rows; ++r) {
    const float* c = args.c.row<const float>(group.row + r) + group.col;
    for (int64_t i = 0; i < group.cols; i += kLanes) {
      store(sums + r * stride + i, load_row(c + i, group.cols - i));
    }
  }
}

// Returns the part of b that is packed after that of `block`: for the next block of k, or for the
// next tile. With TN, b is an activation that was written just before, so nothing is prefetched.
template <typename P>
LinesAhead lines_after(const P& product, int64_t tile, ProductBlock block) {
  using T = typename P::Element;
  const Tiling& tiling = product.tiling;
  const MatmulArgs& args = product.args;
  const int64_t row_begin = tile % tiling.num_row_blocks * tiling.tile_rows;
  const int64_t rows = std::min(tiling.tile_rows, args.c.rows - row_begin);
  const int64_t groups = (rows + kGroupRows - 1) / kGroupRows;
  const int64_t num_calls = groups * ((block.cols + kPanelCols - 1) / kPanelCols);
  block.k_begin += block.k_count;
  if (block.k_begin == product.k) {
    const int64_t next = tile + tiling.tiles_later;
    const int64_t col = next / tiling.num_row_blocks * tiling.tile_cols;
    if (col == block.col || col >= args.c.cols) return {};
    block.k_begin = 0;
    block.col = col;
    block.cols = std::min(tiling.tile_cols, args.c.cols - col);
  }
  block.k_count = std::min(tiling.block_steps * P::kElements, product.k - block.k_begin);
  const int64_t stride_bytes = args.b.stride * int64_t(sizeof(T));
  if (args.form == MatmulForm::NT) {
    return {args.b.row<const T>(block.col) + block.k_begin, stride_bytes,
            block.k_count * int64_t(sizeof(T)), block.cols, num_calls};
  }
  if (args.form == MatmulForm::NN) {
    return {args.b.row<const T>(block.k_begin) + block.col, stride_bytes,
            block.cols * int64_t(sizeof(T)), block.k_count, num_calls};
  }
  return {};
}

// Multiplies one tile block by block of k. multiply_rows(block, ahead) multiplies the rows and
// columns of a block by the packed panels of b, and prefetches some of `ahead` for every group of
// rows and panel; it is called for at most sub_rows rows.
template <typename P, typename MultiplyRows>
void multiply_tile_of(const P& product, int64_t tile, int64_t sub_rows, const Workspace& ws,
                      MultiplyRows&& multiply_rows) {
  using T = typename P::Element;
  const Tiling& tiling = product.tiling;
  const MatmulArgs& args = product.args;
  ProductBlock block{};
  const int64_t row_begin = tile % tiling.num_row_blocks * tiling.tile_rows;
  const int64_t row_end = std::min(row_begin + tiling.tile_rows, args.c.rows);
  block.col = tile / tiling.num_row_blocks * tiling.tile_cols;
  block.cols = std::min(tiling.tile_cols, args.c.cols - block.col);
  const int64_t key = product.first_key + block.col;
  if (args.bias_N) widen_bias<T>(args, block, ws.bias);
  do {  // runs once even if k = 0
    block.k_count = std::min(tiling.block_steps * P::kElements, product.k - block.k_begin);
    const bool whole_k = block.k_count == product.k;
    if (!whole_k || *ws.packed_cols != key) product.pack(block, ws);
    *ws.packed_cols = whole_k ? key : -1;
    LinesAhead ahead = lines_after(product, tile, block);
    for (block.row = row_begin; block.row < row_end; block.row += sub_rows) {
      block.rows = std::min(sub_rows, row_end - block.row);
      block.row_in_tile = block.row - row_begin;
      multiply_rows(block, ahead);
    }
    block.k_begin += block.k_count;
  } while (block.k_begin < product.k);
}

// Calls multiply(tile, thread) for all tiles.
template <typename Multiply>
void run_tiles(Stream& stream, int64_t num_tiles, bool serial, Multiply&& multiply) {
  for (int thread = 0; thread < stream.team().size(); ++thread) {
    *reinterpret_cast<int64_t*>(stream.workspace(thread)) = -1;  // no panel is packed yet
  }
  if (!serial) return stream.team().parallel_for(num_tiles, multiply);
  for (int64_t tile = 0; tile < num_tiles; ++tile) multiply(tile, 0);
}

}  // namespace
}  // namespace trireme::TRIREME_ISA
