#pragma once

// Sums of one row of a, or of a few, times rows of b (NT), for *_cpu.cc files only. b is not packed
// for all of k. A block of it is transposed in registers and multiplied there, or for a few rows in
// the L1 cache. Every sum is made as the product of many rows makes it, so its bits are those that
// the row has beside others.

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
// The most rows of a that share the transposed blocks. More of them are multiplied by packed
// panels, and with AVX-512 all products of several rows are, because these were measured with AVX2
// only.
constexpr int64_t kMostRowsPerBlock = kRegisterLanes == 16 ? 1 : 16;
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

// Rows of b that are multiplied together: kRowCols by one row of a, kPanelCols by a few. They have
// k elements each, and the first `cols` of them exist.
template <typename T>
struct RowsOfB {
  static constexpr int64_t kBlock = kBlockDwords * kStepElements<LoadedDword<T>>;  // of a row
  static constexpr int64_t kLine = 64 / int64_t(sizeof(T));

  const T* data;
  int64_t stride, cols, k;
};

// Steps of a row of a that one block of b is multiplied by.
template <typename T>
constexpr int64_t kStepsOfBlock = RowsOfB<T>::kBlock / kStepElements<RowType<T>>;

// Prefetches the element `at` of kRegisterLanes rows, from `row` on. Beyond the end of these rows
// lie the next ones, kWidth rows later, which the next columns need.
template <int64_t kWidth, typename T>
TRIREME_INLINE void prefetch_line_of_rows(const RowsOfB<T>& b, int64_t row, int64_t at) {
  const T* const rows = b.data + row * b.stride;
  const T* const element = at < b.k ? rows + at : rows + kWidth * b.stride + (at - b.k);
#pragma GCC unroll 16
  for (int64_t lane = 0; lane < kRegisterLanes; ++lane)
    __builtin_prefetch(element + lane * b.stride);
}

// Prefetches what follows the block of kRegisterLanes rows, from `row` and their element `done` on,
// and as many bytes as it has of `later`, unless that is null.
template <int64_t kWidth, typename T>
TRIREME_INLINE void prefetch_after(const RowsOfB<T>& b, int64_t row, int64_t done, const T* later) {
  using B = RowsOfB<T>;
  if (later != nullptr) {
#pragma GCC unroll 16
    for (int64_t at = 0; at < kRegisterLanes * B::kBlock; at += B::kLine) {
      __builtin_prefetch(later + row * B::kBlock + at, 0, 2);
    }
  }
  if (done % B::kLine == 0) prefetch_line_of_rows<kWidth>(b, row, done + kRowLinesAhead * B::kLine);
}

// Loads kRegisterLanes dwords of as many rows, beginning with `row` and their element `done`, and
// transposes them. kIsWhole: all of these elements exist.
template <bool kIsWhole, typename T>
TRIREME_INLINE void load_square(const RowsOfB<T>& b, int64_t row, int64_t done,
                                IntVector (&square)[kRegisterLanes]) {
  using Dword = LoadedDword<T>;
  constexpr int64_t kLoaded = kRegisterLanes * kStepElements<Dword>;
  const T* const from = b.data + row * b.stride + done;
  const int64_t left = b.k - done;
#pragma GCC unroll 16
  for (int64_t lane = 0; lane < kRegisterLanes; ++lane) {
    const bool exists = kIsWhole || (row + lane < b.cols && left > 0);
    square[lane] =
        exists ? load_steps<Dword>(from + lane * b.stride, kIsWhole ? kLoaded : left) : zero_ints();
  }
  transpose_lanes(square);
}

// Adds the products of the elements of a block, from `done` on, to the sums. kIsWhole: all rows and
// elements of the block exist.
template <bool kIsWhole, typename T>
TRIREME_INLINE void add_block(Register (&sum)[kRowChains], const RowsOfB<T>& b, int64_t done,
                              const uint32_t* steps, const T* later) {
  constexpr int64_t kElements = kStepElements<LoadedDword<T>>;
  RowBlock block;
#pragma GCC unroll 4
  for (int64_t row = 0; row < kRowCols; row += kRegisterLanes) {
    prefetch_after<kRowCols>(b, row, done, later);
#pragma GCC unroll 2
    for (int64_t i = 0; i < kBlockDwords; i += kRegisterLanes) {
      IntVector square[kRegisterLanes];
      load_square<kIsWhole>(b, row, done + i * kElements, square);
#pragma GCC unroll 16
      for (int64_t lane = 0; lane < kRegisterLanes; ++lane) {
        block[i + lane][row / kRegisterLanes] = square[lane];
      }
    }
  }
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
    asm volatile("" : "+v"(sum[i]));  // complete before MXCSR changes (few_rows_product.h)
    store_register(sums + i * kRegisterLanes, sum[i]);
  }
}

// Loads the elements from `done` on of kPanelCols rows as a panel: [step][kPanelCols]. As many
// bytes as it loads are prefetched from `later` on.
template <bool kIsWhole, typename T>
TRIREME_INLINE void load_panel(const RowsOfB<T>& b, int64_t done, const T* later, uint32_t* panel) {
  using Dword = LoadedDword<T>;
  for (int64_t row = 0; row < kPanelCols; row += kRegisterLanes) {
    prefetch_after<kPanelCols>(b, row, done, later);
    uint32_t* to = panel + row;
    for (int64_t i = 0; i < kBlockDwords; i += kRegisterLanes) {
      IntVector square[kRegisterLanes];
      load_square<kIsWhole>(b, row, done + i * kStepElements<Dword>, square);
#pragma GCC unroll 16
      for (int64_t lane = 0; lane < kRegisterLanes; ++lane) {
        if constexpr (std::is_same_v<Dword, RowType<T>>) {
          store_dwords(to, square[lane]);
          to += kPanelCols;
        } else {
          store_dwords(to, IntVector(widened_low_halves(square[lane])));
          store_dwords(to + kPanelCols, IntVector(widened_high_halves(square[lane])));
          to += 2 * kPanelCols;
        }
      }
    }
  }
}

// Writes the sums of num_rows rows of a and kPanelCols rows of b to sums[num_rows][kPanelCols]. a
// is [block of k][row][step]. A block of b is transposed once for all rows. `later` is not null.
template <typename T>
void few_rows_sums(const RowsOfB<T>& b, const uint32_t* steps, int64_t num_rows, const T* later,
                   float* sums) {
  using U = RowType<T>;
  constexpr int64_t kBlock = RowsOfB<T>::kBlock;
  const RowGroups groups(num_rows);
  alignas(64) uint32_t panel[kStepsOfBlock<T> * kPanelCols];
  TileProduct t;
  t.a_row_bytes = kStepsOfBlock<T> * int64_t{sizeof(uint32_t)};
  t.a_step_bytes = sizeof(float);
  t.b = panel;
  t.c_stride = kPanelCols;
  for (int64_t done = 0; done < b.k; done += kBlock, t.accumulate = true) {
    const T* const part = later + done * kPanelCols;
    if (b.cols >= kPanelCols && b.k - done >= kBlock) {
      load_panel<true>(b, done, part, panel);
    } else {
      load_panel<false>(b, done, part, panel);
    }
    t.num_steps = num_steps_of(std::min(kBlock, b.k - done), kStepElements<U>);
    for (int64_t g = 0; g < groups.count(); ++g) {
      const int64_t row = groups.begin(g);
      t.a = steps + row * kStepsOfBlock<T>;
      t.c = sums + row * kPanelCols;
      tile_product_for<U>(groups.begin(g + 1) - row, kPanelCols)(t);
    }
    steps += num_rows * kStepsOfBlock<T>;
  }
}

}  // namespace
}  // namespace trireme::TRIREME_ISA
