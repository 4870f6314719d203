#pragma once

// Computes one product of bf16 matrices tile by tile with the tile registers of AMX, for *_cpu.cc
// files only.

#include "kernels/matmul/amx_tiles.h"
#include "kernels/matmul/product_block.h"

namespace trireme::TRIREME_ISA {
namespace {

struct AmxProduct {
  using Element = bf16;
  static constexpr int64_t kElements = 2;
  static constexpr bool kWidensRows = false;
  static constexpr int64_t kUnitRows = kPairRows;
  static constexpr double kSerialFlops = 4e6;
  static constexpr int64_t num_chunks(int64_t k) { return num_steps_of(k, kChunkElements); }
  // Blocks of k have whole chunks, so that it does not matter how many blocks there are.
  static constexpr int64_t num_steps(int64_t k) { return num_chunks(k) * kChunkSteps; }

  const MatmulArgs& args;
  const Tiling tiling;
  const int64_t k;
  const int64_t first_key = 0;  // distinguishes the panels of several products

  Workspace workspace(Stream& stream, int thread) const {
    return workspace_of(stream.workspace(thread), tiling, tiling.tile_rows);
  }
  void pack(const ProductBlock& block, const Workspace& ws) const;
  void multiply_tile(int64_t tile, const Workspace& ws) const;

 private:
  // Rows of a over one block of k, in groups of 16.
  struct RowsOfA {
    const char* data = nullptr;
    int64_t row_bytes = 0;
    int64_t tile_bytes = 0;   // from 16 rows to the next 16
    int64_t chunk_bytes = 0;  // from one chunk of k to the next
    int64_t num_chunks = 0;   // without the tail
    const char* tail = nullptr;
  };
  static int64_t panel_dwords(int64_t k_count) { return num_steps(k_count) * kPairCols; }
  RowsOfA rows_of_a(const ProductBlock& block, const Workspace& ws) const;
  void multiply_rows(const ProductBlock& block, const Workspace& ws,
                     TileRegisters& registers) const;
  void multiply_pair_of(const ProductBlock& pair, const RowsOfA& a, const char* b,
                        const Workspace& ws, TileRegisters& registers) const;
};

// The last chunk of a panel has whole tiles; its steps beyond k are zero.
void AmxProduct::pack(const ProductBlock& block, const Workspace& ws) const {
  const int64_t dwords = panel_dwords(block.k_count);
  pack_b<kPairCols, bf16>(args, block, dwords, ws.b_panels);
  const int64_t done = num_steps_of(block.k_count, kElements) * kPairCols;
  const int64_t num_panels = num_steps_of(block.cols, kPairCols);
  for (int64_t panel = 0; panel < num_panels; ++panel) {
    std::fill_n(ws.b_panels + panel * dwords + done, dwords - done, 0u);
  }
}

// Packs [16 rows][chunk][row][16 pairs] from k rows of the transposed a.
void pack_row_tiles(const bf16* a, int64_t stride, int64_t k, int64_t num_rows, uint32_t* out) {
  const int64_t num_chunks = num_steps_of(k, kChunkElements);
  constexpr int64_t kTileDwords = kTileRows * kChunkSteps;
  for (int64_t chunk = 0; chunk < num_chunks; ++chunk) {
    for (int64_t row = 0; row < num_rows; row += kTileRows) {
      IntVector pairs[kChunkSteps];
#pragma GCC unroll 16
      for (int64_t step = 0; step < kChunkSteps; ++step) {
        const int64_t i = chunk * kChunkElements + 2 * step;
        const bf16* first = a + i * stride + row;
        pairs[step] = i < k
                          ? interleaved(first, i + 1 < k ? first + stride : nullptr, num_rows - row)
                          : zero_ints();
      }
      transpose_lanes(pairs);
      uint32_t* tile = out + (row / kTileRows * num_chunks + chunk) * kTileDwords;
#pragma GCC unroll 16
      for (int64_t lane = 0; lane < kTileRows; ++lane) {
        store_dwords(tile + lane * kChunkSteps, pairs[lane]);
      }
    }
  }
}

AmxProduct::RowsOfA AmxProduct::rows_of_a(const ProductBlock& block, const Workspace& ws) const {
  const char* packed = reinterpret_cast<const char*>(ws.a_rows);
  if (args.form == MatmulForm::TN) {
    const int64_t chunks = num_chunks(block.k_count);
    pack_row_tiles(args.a.row<const bf16>(block.k_begin) + block.row, args.a.stride, block.k_count,
                   block.rows, ws.a_rows);
    return {packed, 64, chunks * 1024, 1024, chunks, nullptr};
  }
  const bf16* rows = args.a.row<const bf16>(block.row) + block.k_begin;
  const int64_t row_bytes = args.a.stride * int64_t(sizeof(bf16));
  const int64_t whole = block.k_count / kChunkElements;
  RowsOfA a{
      reinterpret_cast<const char*>(rows), row_bytes, kTileRows * row_bytes, 64, whole, nullptr};
  const int64_t rest = block.k_count - whole * kChunkElements;
  if (rest == 0) return a;
  for (int64_t r = 0; r < block.rows; ++r) {
    store_dwords(ws.a_rows + r * kChunkSteps,
                 load_steps<bf16>(rows + r * args.a.stride + whole * kChunkElements, rest));
  }
  a.tail = packed;
  return a;
}

// Multiplies at most 32 rows by at most 32 columns.
void AmxProduct::multiply_pair_of(const ProductBlock& pair, const RowsOfA& a, const char* b,
                                  const Workspace& ws, TileRegisters& registers) const {
  const bool is_first = pair.k_begin == 0;
  const bool is_last = pair.k_begin + pair.k_count == k;
  const int64_t tile_row = pair.row_in_tile / kTileRows;
  const int64_t tile_col = pair.col % tiling.tile_cols;
  PairProduct p;
  p.a = a.data + tile_row * a.tile_bytes;
  p.a_lower = p.a + a.tile_bytes;
  p.a_row_bytes = a.row_bytes;
  p.a_chunk_bytes = a.chunk_bytes;
  p.a_tail = a.tail ? a.tail + pair.row_in_tile * 64 : nullptr;
  p.b = b;
  p.b_row_bytes = kPairCols * sizeof(uint32_t);
  p.num_chunks = a.num_chunks;
  p.accumulate = !is_first || args.write == Write::Accumulate;
  const bool streams = is_first && is_last && pair.cols % kLanes == 0 && streams_result(args);
  const bool in_c = sums_in_c(args) && !streams;
  int64_t stride = args.c.stride;
  if (in_c) {
    p.c = args.c.row<float>(pair.row) + pair.col;
  } else {
    const bool whole_k = is_first && is_last;
    p.c = whole_k ? ws.sums : ws.sums + pair.row_in_tile * tiling.tile_cols + tile_col;
    stride = whole_k ? kPairCols : tiling.tile_cols;
    if (is_first && p.accumulate) load_sums(args, pair, p.c, stride);
  }
  p.c_row_bytes = stride * int64_t(sizeof(float));
  multiply_pair(registers, pair.rows, pair.cols, p);
  if (!is_last || in_c) return;
  if (streams) return stream_result(args, pair, p.c, stride);
  write_result(args, pair, p.c, stride, args.bias_N ? ws.bias + tile_col : nullptr);
}

// The columns of a pair stay in the L1 cache while all rows are multiplied by them.
void AmxProduct::multiply_rows(const ProductBlock& block, const Workspace& ws,
                               TileRegisters& registers) const {
  const RowsOfA a = rows_of_a(block, ws);
  for (int64_t col = 0; col < block.cols; col += kPairCols) {
    const char* b =
        reinterpret_cast<const char*>(ws.b_panels + col / kPairCols * panel_dwords(block.k_count));
    for (int64_t row = 0; row < block.rows; row += kPairRows) {
      ProductBlock pair = block;
      pair.row += row;
      pair.row_in_tile += row;
      pair.rows = std::min(kPairRows, block.rows - row);
      pair.col += col;
      pair.cols = std::min(kPairCols, block.cols - col);
      multiply_pair_of(pair, a, b, ws, registers);
    }
  }
  if (streams_result(args)) _mm_sfence();  // before other threads may read it
}

void AmxProduct::multiply_tile(int64_t tile, const Workspace& ws) const {
  TileRegisters registers;
  // Nothing is prefetched here: whole steps became slower with it.
  multiply_tile_of(*this, tile, tiling.tile_rows, ws, [&](const ProductBlock& block, LinesAhead&) {
    multiply_rows(block, ws, registers);
  });
}

}  // namespace
}  // namespace trireme::TRIREME_ISA
