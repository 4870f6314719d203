#pragma once

// The inner product of matmul on the tile registers of AMX, for *_cpu.cc files only. Up to 32 rows
// by 32 columns of c stay in four tiles while k runs in chunks of 32. A chunk adds two partial
// sums, of its even and of its odd elements, to every element of c. So the bits of c depend on k
// alone. Elements of a chunk beyond k are zero in both operands.

#include <immintrin.h>

#include <cstring>

#include "kernels/inline.h"

namespace trireme::TRIREME_ISA {
namespace {

constexpr int64_t kTileRows = 16;       // of one tile register
constexpr int64_t kChunkElements = 32;  // of k in one tile
constexpr int64_t kChunkSteps = 16;     // pairs of elements
constexpr int64_t kPairRows = 2 * kTileRows;
constexpr int64_t kPairCols = 32;

// The shapes of the tile registers of this thread: 0 to 3 hold c, 4 and 5 rows of a, 6 and 7 b.
// Every chunk of a has whole rows of 64 bytes.
class TileRegisters {
 public:
  TileRegisters() = default;
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;
  ~TileRegisters() { _tile_release(); }

  // For products of 1 to 32 rows and 1 to 32 columns. It clears all tiles if the shape changes.
  void shape(int64_t rows, int64_t cols) {
    if (rows == rows_ && cols == cols_) return;
    rows_ = rows;
    cols_ = cols;
    struct {
      uint8_t palette = 1, first_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {};
      uint8_t rows[16] = {};
    } config;
    const int64_t upper = rows < kTileRows ? rows : kTileRows;
    const int64_t left = cols < kTileRows ? cols : kTileRows;
    const auto set = [&](int tile, int64_t tile_rows, int64_t dwords) {
      config.rows[tile] = static_cast<uint8_t>(dwords > 0 ? tile_rows : 0);
      config.row_bytes[tile] = static_cast<uint16_t>(tile_rows > 0 ? 4 * dwords : 0);
    };
    set(0, upper, left);
    set(1, upper, cols - left);
    set(2, rows - upper, left);
    set(3, rows - upper, cols - left);
    set(4, upper, kChunkSteps);
    set(5, rows - upper, kChunkSteps);
    set(6, kChunkSteps, left);
    set(7, kChunkSteps, cols - left);
    _tile_loadconfig(&config);
  }

 private:
  int64_t rows_ = 0, cols_ = 0;
};

// c[r][n] (+)= sum over k of a[r][k] b[k][n], for 32 rows and columns or the part that the
// registers are shaped for.
struct PairProduct {
  const char* a = nullptr;        // chunks of the first 16 rows
  const char* a_lower = nullptr;  // and of the others
  int64_t a_row_bytes = 0;
  int64_t a_chunk_bytes = 0;
  const char* a_tail = nullptr;  // a last chunk of all rows, 64 bytes apart; null: none
  const char* b = nullptr;       // a pair of rows of k is one row of dwords
  int64_t b_row_bytes = 0;
  float* c = nullptr;
  int64_t c_row_bytes = 0;
  int64_t num_chunks = 0;   // without the tail
  bool accumulate = false;  // false: c counts as zero and is not read
};

template <bool kLower, bool kRight>
TRIREME_INLINE void multiply_chunk(const char* a, const char* a_lower, int64_t a_row_bytes,
                                   const char* b, int64_t b_row_bytes) {
  _tile_loadd(4, a, a_row_bytes);
  _tile_loadd(6, b, b_row_bytes);
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (kRight) {
    _tile_loadd(7, b + 4 * kTileRows, b_row_bytes);
    _tile_dpbf16ps(1, 4, 7);
  }
  if constexpr (kLower) {
    _tile_loadd(5, a_lower, a_row_bytes);
    _tile_dpbf16ps(2, 5, 6);
    if constexpr (kRight) _tile_dpbf16ps(3, 5, 7);
  }
}

template <bool kLower, bool kRight>
[[gnu::noinline]] void pair_product(const PairProduct& p) {
  char* c = reinterpret_cast<char*>(p.c);
  char* c_lower = c + kTileRows * p.c_row_bytes;
  // The intrinsics do not tell the compiler which memory they read.
  asm volatile("" ::: "memory");
  if (p.accumulate) {
    _tile_loadd(0, c, p.c_row_bytes);
    if constexpr (kRight) _tile_loadd(1, c + 4 * kTileRows, p.c_row_bytes);
    if constexpr (kLower) _tile_loadd(2, c_lower, p.c_row_bytes);
    if constexpr (kLower && kRight) _tile_loadd(3, c_lower + 4 * kTileRows, p.c_row_bytes);
  } else {
    _tile_zero(0);
    if constexpr (kRight) _tile_zero(1);
    if constexpr (kLower) _tile_zero(2);
    if constexpr (kLower && kRight) _tile_zero(3);
  }
  const char* a = p.a;
  const char* a_lower = p.a_lower;
  const char* b = p.b;
  for (int64_t chunk = 0; chunk < p.num_chunks; ++chunk) {
    multiply_chunk<kLower, kRight>(a, a_lower, p.a_row_bytes, b, p.b_row_bytes);
    a += p.a_chunk_bytes;
    a_lower += p.a_chunk_bytes;
    b += kChunkSteps * p.b_row_bytes;
  }
  if (p.a_tail != nullptr) {
    multiply_chunk<kLower, kRight>(p.a_tail, p.a_tail + kTileRows * 64, 64, b, p.b_row_bytes);
  }
  _tile_stored(0, c, p.c_row_bytes);
  if constexpr (kRight) _tile_stored(1, c + 4 * kTileRows, p.c_row_bytes);
  if constexpr (kLower) _tile_stored(2, c_lower, p.c_row_bytes);
  if constexpr (kLower && kRight) _tile_stored(3, c_lower + 4 * kTileRows, p.c_row_bytes);
  asm volatile("" ::: "memory");
}

TRIREME_INLINE void multiply_pair(TileRegisters& registers, int64_t rows, int64_t cols,
                                  const PairProduct& p) {
  registers.shape(rows, cols);
  if (rows > kTileRows) {
    cols > kTileRows ? pair_product<true, true>(p) : pair_product<true, false>(p);
  } else {
    cols > kTileRows ? pair_product<false, true>(p) : pair_product<false, false>(p);
  }
}

}  // namespace
}  // namespace trireme::TRIREME_ISA
