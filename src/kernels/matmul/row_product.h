#pragma once

// One row of a times the rows of b (NT), as generation needs it for every token, for *_cpu.cc files
// only. Reading b takes the time, so nothing of it is packed (row_chains.h).

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

// Writes the row of a as the dwords that steps multiply.
template <typename T>
void fill_row_steps(const T* a_K, int64_t k, uint32_t* steps) {
  using U = RowType<T>;
  if constexpr (std::is_same_v<T, U>) {
    steps[num_steps_of(k, kStepElements<U>) - 1] = 0;
    __builtin_memcpy(steps, a_K, size_t(k) * sizeof(T));
  } else {
    float* const wide = reinterpret_cast<float*>(steps);
    wide[k] = 0.0f;  // the second element of the last pair, if k is odd
    for (int64_t i = 0; i < k; i += kLanes) store_row(wide + i, load_row(a_K + i, k - i), k - i);
  }
}

// `cols_later`: from the columns of a tile to those that its thread is likely to take next.
template <typename T>
void multiply_row_columns(const MatmulArgs& args, int64_t k, const uint32_t* steps, int64_t begin,
                          int64_t end, int64_t cols_later) {
  for (int64_t col = begin; col < end; col += kRowCols) {
    const ProductBlock block{.row = 0,
                             .rows = 1,
                             .row_in_tile = 0,
                             .col = col,
                             .cols = std::min(kRowCols, end - col),
                             .k_begin = 0,
                             .k_count = k};
    alignas(64) float sums[kRowCols], bias[kRowCols];
    {
      const WithoutDenormals mode(kInChunks<T>);
      row_sums<T>({args.b.row<const T>(col), args.b.stride, block.cols, k}, steps,
                  args.b.row<const T>(col + cols_later), sums);
    }
    if (args.bias_N) widen_bias<T>(args, block, bias);
    write_result(args, block, sums, kRowCols, args.bias_N ? bias : nullptr);
  }
}

// True for the products that multiply_row makes.
TRIREME_INLINE bool is_row_product(const MatmulArgs& args, int64_t k) {
  return args.form == MatmulForm::NT && args.c.rows == 1 && args.write == Write::Overwrite &&
         k > 0 && (k + 1) * int64_t{sizeof(float)} <= kWorkspaceBytesPerThread;
}

template <typename T>
void multiply_row(Stream& stream, const MatmulArgs& args, int64_t k) {
  uint32_t* const steps = reinterpret_cast<uint32_t*>(stream.workspace(0));
  fill_row_steps(args.a.row<const T>(0), k, steps);
  const int64_t row_bytes = k * int64_t{sizeof(T)};
  const int64_t grain = std::max<int64_t>(1, kRowTileBytes / row_bytes / kRowCols) * kRowCols;
  const int64_t N = args.c.cols;
  stream.team().parallel_for((N + grain - 1) / grain, [&](int64_t tile, int) {
    const int64_t begin = tile * grain;
    multiply_row_columns<T>(args, k, steps, begin, std::min(begin + grain, N),
                            stream.team().size() * grain);
  });
}

}  // namespace
}  // namespace trireme::TRIREME_ISA
