#pragma once

// Products of one or a few rows of a with the rows of b (NT), for *_cpu.cc files only. Generation
// needs them for every token. Reading b takes the time, so nothing of it is packed for all of k
// (row_chains.h).

#include "kernels/matmul/product_block.h"
#include "kernels/matmul/row_chains.h"

namespace trireme::TRIREME_ISA {
namespace {

// Products of bf16 in tile registers take denormals as zeros and make none. So does this thread
// while an active object lives.
class WithoutDenormals {
 public:
  explicit WithoutDenormals(bool is_active) : before_(_mm_getcsr()), is_active_(is_active) {
    if (is_active_) _mm_setcsr(before_ | _MM_FLUSH_ZERO_ON | kDenormalsAreZero);
    asm volatile("" ::: "memory");  // no load moves before it, so no sum does
  }
  WithoutDenormals(const WithoutDenormals&) = delete;
  WithoutDenormals& operator=(const WithoutDenormals&) = delete;
  ~WithoutDenormals() {
    asm volatile("" ::: "memory");
    if (is_active_) _mm_setcsr(before_);
  }

 private:
  static constexpr unsigned kDenormalsAreZero = 0x40;
  const unsigned before_;
  const bool is_active_;
};

// Writes `count` elements of a row of a as the dwords that steps multiply.
template <typename T>
void fill_steps(const T* a, int64_t count, uint32_t* steps) {
  using U = RowType<T>;
  if constexpr (std::is_same_v<T, U>) {
    steps[num_steps_of(count, kStepElements<U>) - 1] = 0;
    __builtin_memcpy(steps, a, size_t(count) * sizeof(T));
  } else {
    float* const wide = reinterpret_cast<float*>(steps);
    if (count % 2 != 0) wide[count] = 0.0f;  // the second element of the last pair
    for (int64_t i = 0; i < count; i += kLanes) {
      store_row(wide + i, load_row(a + i, count - i), count - i);
    }
  }
}

// A product of few rows. Threads take its tiles, which are columns of c, once `fill` has written
// the rows of a to `steps`: [block of k][row][step], so that a block is read in the order of
// memory.
template <typename T>
struct FewRowsProduct {
  MatmulArgs args;
  int64_t k;
  uint32_t* steps;

  static bool is_one(const MatmulArgs& args, int64_t k) {
    return args.form == MatmulForm::NT && args.c.rows <= kMostRowsPerBlock &&
           args.write == Write::Overwrite && k > 0;
  }
  static int64_t num_steps(int64_t rows, int64_t k) {
    return rows * num_steps_of(k, RowsOfB<T>::kBlock) * kStepsOfBlock<T>;
  }
  static int64_t tile_cols(int64_t rows, int64_t k) {  // rows > 0
    const int64_t bytes_of_cols = rows * kRowCols * k * int64_t{sizeof(T)};
    return std::max<int64_t>(1, kRowTileBytes / bytes_of_cols) * kRowCols;
  }
  static int64_t num_tiles(int64_t rows, int64_t cols, int64_t k) {
    if (rows == 0) return 0;
    const int64_t width = tile_cols(rows, k);
    return (cols + width - 1) / width;
  }

  void fill() const;
  // tiles_later: from a tile to that which its thread is likely to take next.
  void multiply_tile(int64_t tile, int64_t tiles_later) const;
};

template <typename T>
void FewRowsProduct<T>::fill() const {
  uint32_t* to = steps;
  for (int64_t done = 0; done < k; done += RowsOfB<T>::kBlock) {
    const int64_t count = std::min(RowsOfB<T>::kBlock, k - done);
    for (int64_t row = 0; row < args.c.rows; ++row, to += kStepsOfBlock<T>) {
      fill_steps(args.a.row<const T>(row) + done, count, to);
    }
  }
}

template <typename T>
void FewRowsProduct<T>::multiply_tile(int64_t tile, int64_t tiles_later) const {
  const int64_t cols_of_tile = tile_cols(args.c.rows, k);
  const int64_t end = std::min((tile + 1) * cols_of_tile, args.c.cols);
  const int64_t width = args.c.rows == 1 ? kRowCols : kPanelCols;
  for (int64_t col = tile * cols_of_tile; col < end; col += width) {
    const ProductBlock block{.row = 0,
                             .rows = args.c.rows,
                             .row_in_tile = 0,
                             .col = col,
                             .cols = std::min(width, end - col),
                             .k_begin = 0,
                             .k_count = k};
    alignas(64) float sums[std::max(kRowCols, kMostRowsPerBlock * kPanelCols)];
    alignas(64) float bias[std::max(kRowCols, kPanelCols)];
    const RowsOfB<T> b{args.b.row<const T>(col), args.b.stride, block.cols, k};
    const T* const later = args.b.row<const T>(col + tiles_later * cols_of_tile);
    if (kMostRowsPerBlock == 1 || block.rows == 1) {
      const WithoutDenormals mode(kInChunks<T>);
      row_sums<T>(b, steps, later, sums);
    } else if constexpr (kMostRowsPerBlock > 1) {
      few_rows_sums<T>(b, steps, block.rows, later, sums);
    }
    if (args.bias_N) widen_bias<T>(args, block, bias);
    write_result(args, block, sums, width, args.bias_N ? bias : nullptr);
  }
}

TRIREME_INLINE bool fit_into_workspace(int64_t num_steps) {
  return num_steps * int64_t{sizeof(uint32_t)} <= kWorkspaceBytesPerThread;
}

}  // namespace
}  // namespace trireme::TRIREME_ISA
