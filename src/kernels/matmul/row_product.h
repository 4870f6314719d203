#pragma once

// One row of a times the rows of b (NT), as generation needs it for every token, for *_cpu.cc files
// only. Reading b takes the time, so nothing of it is packed: blocks of b are transposed in
// registers and multiplied there. Every sum is the chain of multiply-adds of tile_product, so its
// bits are those that the row has beside others.

#include "kernels/matmul/product_block.h"

namespace trireme::TRIREME_ISA {
namespace {

constexpr int64_t kRowTileBytes = 128 * 1024;  // of b, that a thread takes at a time
constexpr int64_t kLinesAhead = 8;             // of a row of b, that are prefetched

// Writes the row of a as the dwords that steps multiply.
template <typename T>
void fill_row_steps(const T* a_K, int64_t k, uint32_t* steps) {
  using U = ComputeType<T>;
  if constexpr (std::is_same_v<T, U>) {
    steps[num_steps_of(k, kStepElements<U>) - 1] = 0;
    __builtin_memcpy(steps, a_K, size_t(k) * sizeof(T));
  } else {
    float* const wide = reinterpret_cast<float*>(steps);
    for (int64_t i = 0; i < k; i += kLanes) store_row(wide + i, load_row(a_K + i, k - i), k - i);
  }
}

// The sums of kRegisterLanes columns, those of the first rows of b.
template <typename T>
TRIREME_INLINE Register row_sums(const T* b, int64_t stride, int64_t cols, int64_t k,
                                 const uint32_t* steps) {
  using U = ComputeType<T>;
  constexpr int64_t kBlock = kRegisterLanes * kStepElements<U>;  // elements of a row
  constexpr int64_t kLine = 64 / int64_t(sizeof(T));
  Register sum = zero_register();
  for (int64_t done = 0; done < k; done += kBlock) {
    // Beyond the end of these rows lie the next ones, which the next columns need.
    const int64_t ahead = done + kLinesAhead * kLine;
    const T* const next = ahead < k ? b + ahead : b + kRegisterLanes * stride + (ahead - k);
    IntVector rows[kRegisterLanes];
#pragma GCC unroll 16
    for (int64_t lane = 0; lane < kRegisterLanes; ++lane) {
      if (done % kLine == 0) __builtin_prefetch(next + lane * stride);
      rows[lane] = lane < cols ? load_steps<U>(b + lane * stride + done, k - done) : zero_ints();
    }
    transpose_lanes(rows);
    const int64_t left = num_steps_of(k - done, kStepElements<U>);
    const char* const a = reinterpret_cast<const char*>(steps + done / kStepElements<U>);
    if (left >= kRegisterLanes) {
#pragma GCC unroll 16
      for (int64_t step = 0; step < kRegisterLanes; ++step) {
        sum = multiply_add<U>(sum, broadcast_dword(a + 4 * step), Register(rows[step]));
      }
    } else {
      for (int64_t step = 0; step < left; ++step) {
        sum = multiply_add<U>(sum, broadcast_dword(a + 4 * step), Register(rows[step]));
      }
    }
  }
  return sum;
}

template <typename T>
void multiply_row_columns(const MatmulArgs& args, int64_t k, const uint32_t* steps, int64_t begin,
                          int64_t end) {
  static_assert(kLanes % kRegisterLanes == 0);
  for (int64_t col = begin; col < end; col += kLanes) {
    const ProductBlock block{.row = 0,
                             .rows = 1,
                             .row_in_tile = 0,
                             .col = col,
                             .cols = std::min(kLanes, end - col),
                             .k_begin = 0,
                             .k_count = k};
    alignas(64) float sums[kLanes], bias[kLanes];
    for (int64_t first = 0; first < block.cols; first += kRegisterLanes) {
      const int64_t cols = std::min(kRegisterLanes, block.cols - first);
      store_register(sums + first,
                     row_sums(args.b.row<const T>(col + first), args.b.stride, cols, k, steps));
    }
    if (args.bias_N) widen_bias<T>(args, block, bias);
    write_result(args, block, sums, kLanes, args.bias_N ? bias : nullptr);
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
  const int64_t grain = std::max<int64_t>(1, kRowTileBytes / row_bytes / kLanes) * kLanes;
  const int64_t N = args.c.cols;
  stream.team().parallel_for((N + grain - 1) / grain, [&](int64_t tile, int) {
    const int64_t begin = tile * grain;
    multiply_row_columns<T>(args, k, steps, begin, std::min(begin + grain, N));
  });
}

}  // namespace
}  // namespace trireme::TRIREME_ISA
