#pragma once

// Sums of one row of a times rows of b (NT), for *_cpu.cc files only. Nothing of b is packed:
// blocks of it are transposed in registers and multiplied there. Every sum is made as the product
// of several rows makes it, so its bits are those that the row has beside others.

#include <algorithm>

#include "kernels/matmul/pack.h"

namespace trireme::TRIREME_ISA {
namespace {

constexpr int64_t kRowLinesAhead = 2;  // of a row of b, that are prefetched into the L1 cache
// Registers of sums that run at the same time, because one multiply-add of a chain waits for the
// one before.
constexpr int64_t kRowChains = kRegisterLanes == 16 ? 1 : 4;
constexpr int64_t kRowCols = kRowChains * kRegisterLanes;
constexpr int64_t kBlockDwords = 16;  // of each row of b, which are transposed at a time
// The transposed dwords of one chain stay in the 32 registers of AVX-512, if the loop over them is
// unrolled. Those of several chains are stored.
constexpr int64_t kUnrolledDwords = kRowChains == 1 ? kBlockDwords : 4;

// Dword i of kRegisterLanes rows of b for every chain: [i][chain].
using RowBlock = IntVector[kBlockDwords][kRowChains];

// Tile registers add two sums of each chunk of 32 bf16, of its even and of its odd elements. Vector
// registers do the same in fp32: one block is one chunk.
#if defined(__AMX_BF16__)
template <typename T>
constexpr bool kInChunks = std::is_same_v<T, bf16>;
#else
template <typename T>
constexpr bool kInChunks = false;
#endif

// The type that a row is multiplied in.
template <typename T>
using RowType = std::conditional_t<kInChunks<T>, float, ComputeType<T>>;

// The elements of a dword that is loaded and transposed. bf16 is loaded in pairs even if each half
// is widened afterwards.
template <typename T>
using LoadedDword = std::conditional_t<std::is_same_v<T, bf16>, bf16, float>;

// Adds the products of a row of a, from `a` on, and one transposed dword of each of kRegisterLanes
// rows of b. has_second: a pair of bf16 has a second element, too.
template <typename T>
TRIREME_INLINE Register add_dword(Register sum, const char* a, IntVector b,
                                  [[maybe_unused]] bool has_second) {
  if constexpr (std::is_same_v<LoadedDword<T>, RowType<T>>) {
    return multiply_add<RowType<T>>(sum, broadcast_dword(a), Register(b));
  } else {
    sum = multiply_add<float>(sum, broadcast_dword(a), widened_low_halves(b));
    if (!has_second) return sum;
    return multiply_add<float>(sum, broadcast_dword(a + sizeof(float)), widened_high_halves(b));
  }
}

// kRowCols rows of b with k elements each, of which the first `cols` rows exist.
template <typename T>
struct RowsOfB {
  static constexpr int64_t kBlock = kBlockDwords * kStepElements<LoadedDword<T>>;  // of a row
  static constexpr int64_t kLine = 64 / int64_t(sizeof(T));

  const T* data;
  int64_t stride, cols, k;
};

// Prefetches the element `at` of kRegisterLanes rows, from `row` on. Beyond the end of these rows
// lie the next ones, which the next columns need.
template <typename T>
TRIREME_INLINE void prefetch_line_of_rows(const RowsOfB<T>& b, int64_t row, int64_t at) {
  const T* const rows = b.data + row * b.stride;
  const T* const element = at < b.k ? rows + at : rows + kRowCols * b.stride + (at - b.k);
#pragma GCC unroll 16
  for (int64_t lane = 0; lane < kRegisterLanes; ++lane)
    __builtin_prefetch(element + lane * b.stride);
}

// Loads kRegisterLanes rows, beginning with `row`, from their element `done` on, and transposes
// them. kIsWhole: all of these elements exist.
template <bool kIsWhole, typename T>
TRIREME_INLINE void load_rows(const RowsOfB<T>& b, int64_t row, int64_t done, RowBlock& block) {
  using Dword = LoadedDword<T>;
  constexpr int64_t kLoaded = kRegisterLanes * kStepElements<Dword>;
  const T* from = b.data + row * b.stride + done;
  int64_t left = b.k - done;
#pragma GCC unroll 2
  for (int64_t i = 0; i < kBlockDwords; i += kRegisterLanes, from += kLoaded, left -= kLoaded) {
    IntVector rows[kRegisterLanes];
#pragma GCC unroll 16
    for (int64_t lane = 0; lane < kRegisterLanes; ++lane) {
      const bool exists = kIsWhole || (row + lane < b.cols && left > 0);
      rows[lane] = exists ? load_steps<Dword>(from + lane * b.stride, kIsWhole ? kLoaded : left)
                          : zero_ints();
    }
    transpose_lanes(rows);
#pragma GCC unroll 16
    for (int64_t lane = 0; lane < kRegisterLanes; ++lane) {
      block[i + lane][row / kRegisterLanes] = rows[lane];
    }
  }
}

// Adds the products of the elements of a block, from `done` on, to the sums. kIsWhole: all rows and
// elements of the block exist. As many bytes as the block has are prefetched from `later` on,
// unless it is null.
template <bool kIsWhole, typename T>
TRIREME_INLINE void add_block(Register (&sum)[kRowChains], const RowsOfB<T>& b, int64_t done,
                              const uint32_t* steps, const T* later) {
  using B = RowsOfB<T>;
  RowBlock block;
#pragma GCC unroll 4
  for (int64_t row = 0; row < kRowCols; row += kRegisterLanes) {
    if (later != nullptr) {
#pragma GCC unroll 16
      for (int64_t at = 0; at < kRegisterLanes * B::kBlock; at += B::kLine) {
        __builtin_prefetch(later + row * B::kBlock + at, 0, 2);
      }
    }
    if (done % B::kLine == 0) prefetch_line_of_rows(b, row, done + kRowLinesAhead * B::kLine);
    load_rows<kIsWhole>(b, row, done, block);
  }
  constexpr int64_t kElements = kStepElements<LoadedDword<T>>;
  constexpr int64_t kBytesOfA = kElements / kStepElements<RowType<T>> * int64_t(sizeof(float));
  const char* const a = reinterpret_cast<const char*>(steps + done / kStepElements<RowType<T>>);
  const int64_t left = b.k - done;
  const int64_t num_dwords =
      kIsWhole ? kBlockDwords : std::min(kBlockDwords, num_steps_of(left, kElements));
  static_assert(!kInChunks<T> || kRowChains == 1);
  if constexpr (kInChunks<T>) {
    Register even = zero_register(), odd = zero_register();
#pragma GCC unroll 16
    for (int64_t i = 0; i < num_dwords; ++i) {
      const char* const pair = a + i * kBytesOfA;
      even = multiply_add<float>(even, broadcast_dword(pair), widened_low_halves(block[i][0]));
      odd = multiply_add<float>(odd, broadcast_dword(pair + sizeof(float)),
                                widened_high_halves(block[i][0]));
    }
    if (num_dwords < kBlockDwords) {  // tiles add zeros beyond k, too: -0 becomes 0
      even = even + zero_register();
      odd = odd + zero_register();
    }
    sum[0] = sum[0] + (even + odd);
    return;
  }
#pragma GCC unroll kUnrolledDwords
  for (int64_t i = 0; i < num_dwords; ++i) {
#pragma GCC unroll 4
    for (int64_t chain = 0; chain < kRowChains; ++chain) {
      sum[chain] = add_dword<T>(sum[chain], a + i * kBytesOfA, block[i][chain],
                                kIsWhole || i * kElements + 1 < left);
    }
  }
}

// Writes the sums of the columns. As many bytes as the rows have are prefetched from `later` on
// into the L2 cache: a Zen 4 reads memory fast only in its order (docs/performance.md).
template <typename T>
TRIREME_INLINE void row_sums(const RowsOfB<T>& b, const uint32_t* steps, const T* later,
                             float* sums) {
  constexpr int64_t kBlock = RowsOfB<T>::kBlock;
  Register sum[kRowChains];
#pragma GCC unroll 4
  for (int64_t i = 0; i < kRowChains; ++i) sum[i] = zero_register();
  for (int64_t done = 0; done < b.k; done += kBlock) {
    const T* const part = later == nullptr ? nullptr : later + done * kRowCols;
    if (b.cols >= kRowCols && b.k - done >= kBlock) {
      add_block<true>(sum, b, done, steps, part);
    } else {
      add_block<false>(sum, b, done, steps, part);
    }
  }
#pragma GCC unroll 4
  for (int64_t i = 0; i < kRowChains; ++i) {
    asm volatile("" : "+v"(sum[i]));  // complete before MXCSR changes (row_product.h)
    store_register(sums + i * kRegisterLanes, sum[i]);
  }
}

}  // namespace
}  // namespace trireme::TRIREME_ISA
