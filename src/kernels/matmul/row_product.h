#pragma once

// One row of a times the rows of b (NT), as generation needs it for every token, for *_cpu.cc files
// only. Reading b takes the time, so nothing of it is packed: blocks of b are transposed in
// registers and multiplied there. Every sum is made as the product of several rows makes it, so its
// bits are those that the row has beside others.

#include "kernels/matmul/product_block.h"

namespace trireme::TRIREME_ISA {
namespace {

constexpr int64_t kRowLinesAhead = 2;  // of a row of b, that are prefetched into the L1 cache
// Columns whose sums run at the same time. One multiply-add of a chain waits for the one before.
constexpr int64_t kRowCols = kRegisterLanes == 16 ? 16 : 32;

// Tile registers add two sums of each chunk of 32 bf16, of its even and of its odd elements. Vector
// registers do the same in fp32: one block of 16 rows of b is one chunk.
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

// Adds the products of a block of kRegisterLanes rows of b to the sums of their columns. kIsWhole:
// all of these rows have a whole block; `cols` and `left` are not read. Otherwise only the first
// `cols` rows exist, with `left` elements from here to their end.
template <bool kIsWhole, typename T>
TRIREME_INLINE Register add_block(Register sum, const T* b, int64_t stride, int64_t cols,
                                  int64_t left, const uint32_t* steps) {
  using Dword = LoadedDword<T>;
  constexpr int64_t kElements = kStepElements<Dword>;
  constexpr int64_t kAll = kRegisterLanes * kElements;
  constexpr int64_t kBytesOfA = kElements / kStepElements<RowType<T>> * int64_t(sizeof(float));
  IntVector rows[kRegisterLanes];
#pragma GCC unroll 16
  for (int64_t lane = 0; lane < kRegisterLanes; ++lane) {
    rows[lane] = kIsWhole || lane < cols
                     ? load_steps<Dword>(b + lane * stride, kIsWhole ? kAll : left)
                     : zero_ints();
  }
  transpose_lanes(rows);
  const char* const a = reinterpret_cast<const char*>(steps);
  const int64_t num_dwords =
      kIsWhole ? kRegisterLanes : std::min(kRegisterLanes, num_steps_of(left, kElements));
  if constexpr (kInChunks<T>) {
    Register even = zero_register(), odd = zero_register();
#pragma GCC unroll 16
    for (int64_t i = 0; i < num_dwords; ++i) {
      const char* const pair = a + i * kBytesOfA;
      even = multiply_add<float>(even, broadcast_dword(pair), widened_low_halves(rows[i]));
      odd = multiply_add<float>(odd, broadcast_dword(pair + sizeof(float)),
                                widened_high_halves(rows[i]));
    }
    if (num_dwords < kRegisterLanes) {  // tiles add zeros beyond k, too: -0 becomes 0
      even = even + zero_register();
      odd = odd + zero_register();
    }
    return sum + (even + odd);
  }
#pragma GCC unroll 16
  for (int64_t i = 0; i < num_dwords; ++i) {
    sum = add_dword<T>(sum, a + i * kBytesOfA, rows[i], kIsWhole || i * kElements + 1 < left);
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

// Writes the sums of `cols` columns, at most kRowCols: those of the first rows of b. As many bytes
// as these rows have are prefetched from `later` on into the L2 cache: a Zen 4 reads memory fast
// only in its order (docs/performance.md).
template <typename T>
TRIREME_INLINE void row_sums(const T* b, int64_t stride, int64_t cols, int64_t k,
                             const uint32_t* steps, const T* later, float* sums) {
  constexpr int64_t kBlock = kRegisterLanes * kStepElements<LoadedDword<T>>;  // elements of a row
  constexpr int64_t kLine = 64 / int64_t(sizeof(T));
  constexpr int64_t kChains = kRowCols / kRegisterLanes;
  Register sum[kChains];
#pragma GCC unroll 4
  for (int64_t i = 0; i < kChains; ++i) sum[i] = zero_register();
  for (int64_t done = 0; done < k; done += kBlock) {
    const uint32_t* const a = steps + done / kStepElements<RowType<T>>;
#pragma GCC unroll 4
    for (int64_t i = 0; i < kChains; ++i, later += kRegisterLanes * kBlock) {
#pragma GCC unroll 16
      for (int64_t at = 0; at < kRegisterLanes * kBlock; at += kLine) {
        __builtin_prefetch(later + at, 0, 2);
      }
      const int64_t first = i * kRegisterLanes;
      const T* const rows = b + first * stride;
      if (done % kLine == 0) prefetch_rows(rows, stride, done + kRowLinesAhead * kLine, k);
      sum[i] = cols >= first + kRegisterLanes && k - done >= kBlock
                   ? add_block<true>(sum[i], rows + done, stride, cols, kBlock, a)
                   : add_block<false>(sum[i], rows + done, stride, cols - first, k - done, a);
    }
  }
#pragma GCC unroll 4
  for (int64_t i = 0; i < kChains; ++i) {
    asm volatile("" : "+v"(sum[i]));  // no sum moves behind the end of WithoutDenormals
    store_register(sums + i * kRegisterLanes, sum[i]);
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
      row_sums(args.b.row<const T>(col), args.b.stride, block.cols, k, steps,
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
