#pragma once

// Computes one product tile by tile with the vector registers, for *_cpu.cc files only.

#include "kernels/matmul/product_block.h"

namespace trireme::TRIREME_ISA {
namespace {

constexpr int64_t kSubRows = 144;  // rows of a that are packed or widened at a time
static_assert(kSubRows == kMostGroups * kGroupRows);

// Up to kSubRows rows of a over one block of k, in the form that the micro-kernel reads.
struct RowsOfA {
  const char* data = nullptr;
  int64_t group_bytes = 0;  // from one group of packed rows to the next; 0: rows are contiguous
  int64_t row_bytes = 0;
  int64_t step_bytes = 0;
  int64_t num_steps = 0;      // number of whole steps
  const bf16* odd = nullptr;  // the element of an incomplete pair, if rows are read in place
  int64_t odd_stride = 0;
  // Present: rows lie in segments instead, [group][segment][kGroupRows].
  const char* const* segments = nullptr;
  int64_t num_segments = 0;
};

// In the place of patches: both operands are stored as they are.
struct NoPatches {};

// `Patches` is a matrix that exists row by row only (convolution/patches.h). It takes the place of
// a (NT, NN) or of b (TN).
template <typename T, typename Patches = NoPatches>
struct Product {
  using Element = T;
  using U = ComputeType<T>;
  static constexpr int64_t kElements = kStepElements<U>;
  static constexpr bool kWidensRows = !std::is_same_v<T, U>;
  static constexpr int64_t kUnitRows = kGroupRows;
  static constexpr double kSerialFlops = 4e5;

  static constexpr int64_t num_steps(int64_t k) { return num_steps_of(k, kElements); }

  const MatmulArgs& args;
  const Tiling tiling;
  const int64_t k;
  const int64_t first_key = 0;  // distinguishes the panels of several products
  const Patches patches{};

  Workspace workspace(Stream& stream, int thread) const {
    return workspace_of(stream.workspace(thread), tiling, kSubRows);
  }
  void pack(const ProductBlock& block, const Workspace& ws) const {
    if constexpr (kHasPatches) {
      if (args.form == MatmulForm::TN) {
        return patches.pack(block, panel_dwords(block.k_count), ws);
      }
    }
    pack_b<kPanelCols, T>(args, block, panel_dwords(block.k_count), ws.b_panels);
  }
  void multiply_tile(int64_t tile, const Workspace& ws) const;

 private:
  using Block = ProductBlock;
  static constexpr bool kHasPatches = !std::is_same_v<Patches, NoPatches>;
  int64_t panel_dwords(int64_t k_count) const { return num_steps(k_count) * kPanelCols; }
  RowsOfA rows_of_a(const Block& block, const Workspace& ws) const;
  void multiply_rows(const Block& block, const Workspace& ws, LinesAhead& ahead) const;
  void multiply_group(const Block& rows, const RowsOfA& a, int64_t panel,
                      const Workspace& ws) const;
};

template <typename T, typename Patches>
RowsOfA Product<T, Patches>::rows_of_a(const Block& block, const Workspace& ws) const {
  const int64_t num_steps = num_steps_of(block.k_count, kElements);
  const char* packed = reinterpret_cast<const char*>(ws.a_rows);
  if (args.form == MatmulForm::TN) {
    const int64_t group_dwords = packed_group_dwords(num_steps);
    pack_groups(args.a.row<const T>(block.k_begin) + block.row, args.a.stride, block.k_count,
                RowGroups{block.rows}, group_dwords, ws.a_rows);
    return {packed, group_dwords * int64_t(sizeof(float)), sizeof(float),
            kGroupRows * sizeof(float), num_steps};
  }
  if constexpr (kHasPatches) return patches.rows(block, ws);
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

// Prefetches what the next group reads and writes in c, so that its first loads do not wait.
TRIREME_INLINE void prefetch_next_sums(const float* c, int64_t stride) {
  for (int64_t r = 0; r < kGroupRows; ++r) {
    for (int64_t col = 0; col < kPanelCols; col += 64 / int64_t(sizeof(float))) {
      __builtin_prefetch(c + r * stride + col, 1);
    }
  }
}

constexpr int64_t kLeastStepsAhead = 64;  // a shorter product ends before lines arrive

// Prefetches the place of the result, while the group is multiplied.
TRIREME_INLINE void prefetch_result(const MatmulArgs& args, const ProductBlock& group) {
  const int64_t bytes = size_of(args.c.dtype);
  const char* c =
      static_cast<const char*>(args.c.data) + (group.row * args.c.stride + group.col) * bytes;
  for (int64_t r = 0; r < group.rows; ++r, c += args.c.stride * bytes) {
    __builtin_prefetch(c, 1);
    __builtin_prefetch(c + group.cols * bytes - 1, 1);
  }
}

// Returns where write_tile writes the result of the group. The bits are those of write_result.
TRIREME_INLINE TileResult result_of(const MatmulArgs& args, const ProductBlock& group,
                                    const float* bias) {
  TileResult result{args.c.row<bf16>(group.row) + group.col, args.c.stride, bias};
  if (args.residual_MN) {
    result.residual = args.residual_MN.row<const bf16>(group.row) + group.col;
    result.residual_stride = args.residual_MN.stride;
  }
  return result;
}

// Multiplies a group of at most kGroupRows rows by one panel.
template <typename T, typename Patches>
void Product<T, Patches>::multiply_group(const Block& rows, const RowsOfA& a, int64_t panel,
                                         const Workspace& ws) const {
  const int64_t panel_col = panel * kPanelCols;
  Block group = rows;
  group.col += panel_col;
  group.cols = std::min(kPanelCols, rows.cols - panel_col);
  const bool is_first = group.k_begin == 0;
  const bool is_last = group.k_begin + group.k_count == k;
  const bool is_whole = is_first && is_last;
  const bool in_c = sums_in_c(args) && group.cols % kLanes == 0;
  const float* const bias = args.bias_N ? ws.bias + panel_col : nullptr;

  TileProduct t;
  t.a = a.data;
  t.a_row_bytes = a.row_bytes;
  t.a_step_bytes = a.step_bytes;
  t.b = ws.b_panels + panel * panel_dwords(group.k_count);
  t.num_steps = a.num_steps;
  t.accumulate = !is_first || args.write == Write::Accumulate;
  if (in_c) {
    t.c = args.c.row<float>(group.row) + group.col;
    t.c_stride = args.c.stride;
  } else {
    t.c = is_whole ? ws.sums : ws.sums + group.row_in_tile * tiling.tile_cols + panel_col;
    t.c_stride = is_whole ? kPanelCols : tiling.tile_cols;
    if (is_first && t.accumulate) load_sums(args, group, t.c, t.c_stride);
  }
  t.streams = in_c && is_whole && a.odd == nullptr && a.segments == nullptr && streams_result(args);
  if (in_c && !t.streams) prefetch_next_sums(t.c + group.rows * t.c_stride, t.c_stride);
  if (is_last && !in_c && t.num_steps >= kLeastStepsAhead) prefetch_result(args, group);
  if (a.segments != nullptr) {
    segment_product_for<U>(group.rows, group.cols)({.rows = a.segments,
                                                    .num_segments = a.num_segments,
                                                    .segment_steps = a.num_steps / a.num_segments,
                                                    .b = t.b,
                                                    .c = t.c,
                                                    .c_stride = t.c_stride,
                                                    .accumulate = t.accumulate});
  } else {
    const bool writes_result = is_last && !in_c && args.c.dtype == DType::BF16 &&
                               group.cols % kLanes == 0 && a.odd == nullptr;
    if (writes_result) t.result = result_of(args, group, bias);
    tile_product_for<U>(group.rows, group.cols)(t);
    if (writes_result) return;
  }
  if (a.odd != nullptr) {  // never in the form TN
    uint32_t last[kGroupRows];
    for (int64_t r = 0; r < group.rows; ++r) last[r] = a.odd[r * a.odd_stride].bits;
    t.b = static_cast<const uint32_t*>(t.b) + t.num_steps * kPanelCols;
    t.a = last;
    t.a_row_bytes = sizeof(uint32_t);
    t.num_steps = 1;
    t.accumulate = true;
    tile_product_for<U>(group.rows, group.cols)(t);
  }
  if (!is_last || in_c) return;
  write_result(args, group, t.c, t.c_stride, bias);
}

// The panel stays in the L1 cache while all groups are multiplied by it.
template <typename T, typename Patches>
void Product<T, Patches>::multiply_rows(const Block& block, const Workspace& ws,
                                        LinesAhead& ahead) const {
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
      if (a.segments != nullptr) group_a.segments += g * a.num_segments * kGroupRows;
      ahead.prefetch_some();
      multiply_group(group, group_a, panel, ws);
    }
  }
  if (streams_result(args)) _mm_sfence();  // before other threads may read it
}

template <typename T, typename Patches>
void Product<T, Patches>::multiply_tile(int64_t tile, const Workspace& ws) const {
  multiply_tile_of(*this, tile, kSubRows, ws,
                   [&](const Block& block, LinesAhead& ahead) { multiply_rows(block, ws, ahead); });
}

}  // namespace
}  // namespace trireme::TRIREME_ISA
