#pragma once

// Computes one product tile by tile, for *_cpu.cc files only.

#include <algorithm>

#include "kernels/matmul/matmul.h"
#include "kernels/matmul/pack.h"
#include "kernels/matmul/row_access.h"
#include "kernels/matmul/tiling.h"

namespace trireme::TRIREME_ISA {
namespace {

constexpr int64_t kSubRows = 144;  // rows of a that are packed or widened at a time
static_assert(kSubRows % kGroupRows == 0);

// One thread's part of the stream's workspace.
struct Workspace {
  // first_key + the first column of b that b_panels hold for all of k; -1: none
  int64_t* packed_cols;
  float* bias;         // [tile_cols]
  uint32_t* b_panels;  // [panel][step][kPanelCols]
  uint32_t* a_rows;    // kSubRows rows of a, packed or widened
  float* sums;         // partial sums of the tile, if c itself cannot hold them
};

Workspace workspace_of(Stream& stream, int thread, int64_t tile_cols, int64_t block_steps) {
  std::byte* base = stream.workspace(thread);
  Workspace ws;
  ws.packed_cols = reinterpret_cast<int64_t*>(base);
  ws.bias = reinterpret_cast<float*>(base + 64);
  ws.b_panels = reinterpret_cast<uint32_t*>(ws.bias + tile_cols);
  ws.a_rows = ws.b_panels + tile_cols * block_steps;
  const int64_t widened_steps = num_steps_of(block_steps, kLanes) * kLanes;
  ws.sums = reinterpret_cast<float*>(ws.a_rows + kSubRows * (widened_steps + kLanes));
  return ws;
}

// Up to kSubRows rows of a over one block of k, in the form that the micro-kernel reads.
struct RowsOfA {
  const char* data = nullptr;
  int64_t group_bytes = 0;  // from one group of packed rows to the next; 0: rows are contiguous
  int64_t row_bytes = 0;
  int64_t step_bytes = 0;
  int64_t num_steps = 0;      // number of whole steps
  const bf16* odd = nullptr;  // the element of an incomplete pair, if rows are read in place
  int64_t odd_stride = 0;
};

template <typename T>
struct Product {
  using U = ComputeType<T>;
  static constexpr int64_t kElements = kStepElements<U>;
  static constexpr bool kWidensRows = !std::is_same_v<T, U>;

  const MatmulArgs& args;
  const Tiling tiling;
  const int64_t k;
  const int64_t first_key = 0;  // distinguishes the panels of several products

  void multiply_tile(int64_t tile, const Workspace& ws) const;

 private:
  struct Block {  // a part of one tile: rows of c, columns of c, and a range of k
    int64_t row, rows, row_in_tile;
    int64_t col, cols;
    int64_t k_begin, k_count;
  };
  int64_t panel_dwords(int64_t k_count) const {
    return num_steps_of(k_count, kElements) * kPanelCols;
  }
  void widen_bias(const Block& block, const Workspace& ws) const;
  void pack_b(const Block& block, const Workspace& ws) const;
  RowsOfA rows_of_a(const Block& block, const Workspace& ws) const;
  void multiply_rows(const Block& block, const Workspace& ws) const;
  void multiply_group(const Block& block, const RowsOfA& a, int64_t panel,
                      const Workspace& ws) const;
  template <typename C>
  void finish(const Block& group, int64_t col, int64_t cols, const float* sums, int64_t stride,
              const float* bias) const;
};

template <typename T>
void Product<T>::widen_bias(const Block& block, const Workspace& ws) const {
  const T* bias_N = args.bias_N.as<T>() + block.col;
  for (int64_t col = 0; col < block.cols; col += kLanes) {
    store(ws.bias + col, load_row(bias_N + col, block.cols - col));
  }
}

template <typename T>
void Product<T>::pack_b(const Block& block, const Workspace& ws) const {
  uint32_t* panel = ws.b_panels;
  for (int64_t col = 0; col < block.cols; col += kPanelCols) {
    const int64_t cols = std::min(kPanelCols, block.cols - col);
    if (args.form == MatmulForm::NT) {
      pack_transposed(args.b.row<const T>(block.col + col) + block.k_begin, args.b.stride, cols,
                      block.k_count, panel);
    } else {
      pack_interleaved(args.b.row<const T>(block.k_begin) + block.col + col, args.b.stride,
                       block.k_count, cols, kPanelCols, panel);
    }
    panel += panel_dwords(block.k_count);
  }
}

template <typename T>
RowsOfA Product<T>::rows_of_a(const Block& block, const Workspace& ws) const {
  const int64_t num_steps = num_steps_of(block.k_count, kElements);
  const char* packed = reinterpret_cast<const char*>(ws.a_rows);
  if (args.form == MatmulForm::TN) {
    const int64_t group_dwords = packed_group_dwords(num_steps);
    pack_groups(args.a.row<const T>(block.k_begin) + block.row, args.a.stride, block.k_count,
                RowGroups{block.rows}, group_dwords, ws.a_rows);
    return {packed, group_dwords * int64_t(sizeof(float)), sizeof(float),
            kGroupRows * sizeof(float), num_steps};
  }
  const T* rows = args.a.row<const T>(block.row) + block.k_begin;
  if constexpr (kWidensRows) {
    const int64_t stride = num_steps_of(block.k_count, kLanes) * kLanes;
    float* wide = reinterpret_cast<float*>(ws.a_rows);
    for (int64_t r = 0; r < block.rows; ++r) {
      prefetch_rows_ahead(rows + r * args.a.stride, args.a.stride, block.rows - r, block.k_count,
                          1);
      for (int64_t i = 0; i < block.k_count; i += kLanes) {
        store(wide + r * stride + i, load_row(rows + r * args.a.stride + i, block.k_count - i));
      }
    }
    return {packed, 0, stride * int64_t(sizeof(float)), sizeof(float), num_steps};
  }
  RowsOfA a{reinterpret_cast<const char*>(rows), 0, args.a.stride * int64_t(sizeof(T)),
            sizeof(float), block.k_count / kElements};
  if constexpr (std::is_same_v<U, bf16>) {
    if (block.k_count % 2 != 0) {
      a.odd = rows + block.k_count - 1;
      a.odd_stride = args.a.stride;
    }
  }
  return a;
}

template <typename T>
template <typename C>
void Product<T>::finish(const Block& group, int64_t col, int64_t cols, const float* sums,
                        int64_t stride, const float* bias) const {
  for (int64_t r = 0; r < group.rows; ++r) {
    C* c = args.c.row<C>(group.row + r) + col;
    const C* residual =
        args.residual_MN ? args.residual_MN.row<const C>(group.row + r) + col : nullptr;
    for (int64_t i = 0; i < cols; i += kLanes) {
      F32x16 x = load(sums + r * stride + i);
      if (bias) x = x + load(bias + i);
      if (residual) x = x + load_row(residual + i, cols - i);
      store_row(c + i, x, cols - i);
    }
  }
}

// Multiplies a group of at most kGroupRows rows by one panel.
template <typename T>
void Product<T>::multiply_group(const Block& group, const RowsOfA& a, int64_t panel,
                                const Workspace& ws) const {
  const int64_t panel_col = panel * kPanelCols;
  const int64_t col = group.col + panel_col;
  const int64_t cols = std::min(kPanelCols, group.cols - panel_col);
  const bool is_first = group.k_begin == 0;
  const bool is_last = group.k_begin + group.k_count == k;
  const bool plain = args.c.dtype == DType::F32 && !args.bias_N && !args.residual_MN;
  const bool in_c = plain && cols % kLanes == 0;

  TileProduct t;
  t.a = a.data;
  t.a_row_bytes = a.row_bytes;
  t.a_step_bytes = a.step_bytes;
  t.b = ws.b_panels + panel * panel_dwords(group.k_count);
  t.num_steps = a.num_steps;
  t.accumulate = !is_first || args.write == Write::Accumulate;
  if (in_c) {
    t.c = args.c.row<float>(group.row) + col;
    t.c_stride = args.c.stride;
  } else {
    const bool whole_k = is_first && is_last;
    t.c = whole_k ? ws.sums : ws.sums + group.row_in_tile * tiling.tile_cols + panel_col;
    t.c_stride = whole_k ? kPanelCols : tiling.tile_cols;
    if (is_first && t.accumulate) {
      for (int64_t r = 0; r < group.rows; ++r) {
        const float* c = args.c.row<const float>(group.row + r) + col;
        for (int64_t i = 0; i < cols; i += kLanes) {
          store(t.c + r * t.c_stride + i, load_row(c + i, cols - i));
        }
      }
    }
  }
  const auto product = tile_product_for<U>(group.rows, cols);
  product(t);
  if (a.odd != nullptr) {
    uint32_t last[kGroupRows];
    for (int64_t r = 0; r < group.rows; ++r) last[r] = a.odd[r * a.odd_stride].bits;
    t.b = static_cast<const uint32_t*>(t.b) + t.num_steps * kPanelCols;
    t.a = last;
    t.a_row_bytes = sizeof(uint32_t);
    t.num_steps = 1;
    t.accumulate = true;
    product(t);
  }
  if (!is_last || in_c) return;
  const float* bias = args.bias_N ? ws.bias + panel_col : nullptr;
  if (args.c.dtype == DType::F32) {
    finish<float>(group, col, cols, t.c, t.c_stride, bias);
  } else if (args.c.dtype == DType::F16) {
    finish<f16>(group, col, cols, t.c, t.c_stride, bias);
  } else {
    finish<bf16>(group, col, cols, t.c, t.c_stride, bias);
  }
}

// The panel stays in the L1 cache while all groups are multiplied by it.
template <typename T>
void Product<T>::multiply_rows(const Block& block, const Workspace& ws) const {
  const RowsOfA a = rows_of_a(block, ws);
  const RowGroups groups{block.rows};
  for (int64_t panel = 0; panel * kPanelCols < block.cols; ++panel) {
    for (int64_t g = 0; g < groups.count(); ++g) {
      const int64_t begin = groups.begin(g);
      Block group = block;
      group.row += begin;
      group.row_in_tile += begin;
      group.rows = groups.begin(g + 1) - begin;
      RowsOfA group_a = a;
      group_a.data += a.group_bytes != 0 ? g * a.group_bytes : begin * a.row_bytes;
      if (a.odd != nullptr) group_a.odd += begin * a.odd_stride;
      multiply_group(group, group_a, panel, ws);
    }
  }
}

template <typename T>
void Product<T>::multiply_tile(int64_t tile, const Workspace& ws) const {
  Block block{};
  const int64_t row_begin = tile % tiling.num_row_blocks * tiling.tile_rows;
  const int64_t row_end = std::min(row_begin + tiling.tile_rows, args.c.rows);
  block.col = tile / tiling.num_row_blocks * tiling.tile_cols;
  block.cols = std::min(tiling.tile_cols, args.c.cols - block.col);
  if (args.bias_N) widen_bias(block, ws);
  do {  // runs once even if k = 0
    block.k_count = std::min(tiling.block_steps * kElements, k - block.k_begin);
    const bool whole_k = block.k_count == k;
    if (!whole_k || *ws.packed_cols != first_key + block.col) pack_b(block, ws);
    *ws.packed_cols = whole_k ? first_key + block.col : -1;
    for (block.row = row_begin; block.row < row_end; block.row += kSubRows) {
      block.rows = std::min(kSubRows, row_end - block.row);
      block.row_in_tile = block.row - row_begin;
      multiply_rows(block, ws);
    }
    block.k_begin += block.k_count;
  } while (block.k_begin < k);
}

// With fewer FLOPs the work is done before a second thread would have started.
constexpr double kSerialFlops = 4e5;

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
