#pragma once

// One row of a times the rows of b (NT), as generation needs it for every token, for *_cpu.cc files
// only. Reading b takes the time, so nothing of it is packed: blocks of b are transposed in
// registers and multiplied there. Every sum is the chain of multiply-adds of tile_product, so its
// bits are those that the row has beside others.

#include "kernels/matmul/product_block.h"

namespace trireme::TRIREME_ISA {
namespace {

constexpr int64_t kRowTileBytes = 128 * 1024;  // of b, that a thread takes at a time
constexpr int64_t kRowLinesAhead = 2;  // of a row of b, that are prefetched into the L1 cache

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

// Adds the products of a block of kRegisterLanes rows of b to the sums of their columns. kIsWhole:
// all of these rows have a whole block; `cols` and `left` are not read. Otherwise only the first
// `cols` rows exist, with `left` elements from here to their end.
template <bool kIsWhole, typename T>
TRIREME_INLINE Register add_block(Register sum, const T* b, int64_t stride, int64_t cols,
                                  int64_t left, const uint32_t* steps) {
  using U = ComputeType<T>;
  constexpr int64_t kAll = kRegisterLanes * kStepElements<U>;
  IntVector rows[kRegisterLanes];
#pragma GCC unroll 16
  for (int64_t lane = 0; lane < kRegisterLanes; ++lane) {
    rows[lane] = kIsWhole || lane < cols ? load_steps<U>(b + lane * stride, kIsWhole ? kAll : left)
                                         : zero_ints();
  }
  transpose_lanes(rows);
  const char* const a = reinterpret_cast<const char*>(steps);
  const int64_t num_steps =
      kIsWhole ? kRegisterLanes : std::min(kRegisterLanes, num_steps_of(left, kStepElements<U>));
#pragma GCC unroll 16
  for (int64_t step = 0; step < num_steps; ++step) {
    sum = multiply_add<U>(sum, broadcast_dword(a + 4 * step), Register(rows[step]));
  }
  return sum;
}

// Prefetches the element `at` of each of kRegisterLanes rows. Beyond the end of these rows lie the
// next ones, which the next columns need.
template <typename T>
TRIREME_INLINE void prefetch_rows(const T* b, int64_t stride, int64_t at, int64_t k) {
  const T* const element = at < k ? b + at : b + kRegisterLanes * stride + (at - k);
#pragma GCC unroll 16
  for (int64_t lane = 0; lane < kRegisterLanes; ++lane) __builtin_prefetch(element + lane * stride);
}

// The sums of kRegisterLanes columns, those of the first rows of b. As many bytes as these rows
// have are prefetched from `later` on into the L2 cache: a Zen 4 reads memory fast only in its
// order (docs/performance.md).
template <typename T>
TRIREME_INLINE Register row_sums(const T* b, int64_t stride, int64_t cols, int64_t k,
                                 const uint32_t* steps, const T* later) {
  using U = ComputeType<T>;
  constexpr int64_t kBlock = kRegisterLanes * kStepElements<U>;  // elements of a row
  constexpr int64_t kLine = 64 / int64_t(sizeof(T));
  Register sum = zero_register();
  for (int64_t done = 0; done < k; done += kBlock, later += kRegisterLanes * kBlock) {
#pragma GCC unroll 16
    for (int64_t at = 0; at < kRegisterLanes * kBlock; at += kLine) {
      __builtin_prefetch(later + at, 0, 2);
    }
    if (done % kLine == 0) prefetch_rows(b, stride, done + kRowLinesAhead * kLine, k);
    const uint32_t* const a = steps + done / kStepElements<U>;
    sum = cols >= kRegisterLanes && k - done >= kBlock
              ? add_block<true>(sum, b + done, stride, cols, kBlock, a)
              : add_block<false>(sum, b + done, stride, cols, k - done, a);
  }
  return sum;
}

// `cols_later`: from the columns of a tile to those that its thread is likely to take next.
template <typename T>
void multiply_row_columns(const MatmulArgs& args, int64_t k, const uint32_t* steps, int64_t begin,
                          int64_t end, int64_t cols_later) {
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
                     row_sums(args.b.row<const T>(col + first), args.b.stride, cols, k, steps,
                              args.b.row<const T>(col + first + cols_later)));
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
    multiply_row_columns<T>(args, k, steps, begin, std::min(begin + grain, N),
                            stream.team().size() * grain);
  });
}

}  // namespace
}  // namespace trireme::TRIREME_ISA
