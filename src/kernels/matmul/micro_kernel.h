#pragma once

// The inner product of matmul and attention, for *_cpu.cc files only: a tile of up to 6 rows by one
// panel of columns stays in registers while k runs. One step of k is a dword: one fp32, or a pair
// of bf16 if the processor multiplies pairs; otherwise bf16 is widened when it is packed. Every
// element of a tile is one chain of multiply-adds in the order of k that starts from the tile's old
// value. So its bits depend neither on the tile's place nor on how k is split into blocks.

#include <type_traits>

#include "kernels/matmul/row_access.h"
#include "kernels/matmul/tiling.h"
#include "kernels/simd.h"

namespace trireme::TRIREME_ISA {
namespace {  // one copy per file, because nothing may be shared between instruction sets

#if defined(__AVX512F__)
using Register = __m512;
constexpr int64_t kPanelRegisters = 4;
#else
using Register = __m256;
constexpr int64_t kPanelRegisters = 2;
#endif
#if defined(__AVX512BF16__)
constexpr bool kBf16Pairs = true;
#else
constexpr bool kBf16Pairs = false;
#endif

constexpr int64_t kRegisterLanes = sizeof(Register) / sizeof(float);
constexpr int64_t kPanelCols = kPanelRegisters * kRegisterLanes;

// The type that the registers multiply for matrices of T.
template <typename T>
using ComputeType = std::conditional_t<std::is_same_v<T, bf16> && kBf16Pairs, bf16, float>;
// Number of elements of k in one step.
template <typename U>
constexpr int64_t kStepElements = sizeof(float) / sizeof(U);

// The place of complete sums in a bf16 result. The bias and the residual are added if they are
// present. The residual may be the result itself, because each row is read before it is written.
struct TileResult {
  bf16* c = nullptr;  // null: the sums stay in TileProduct::c
  int64_t c_stride = 0;
  const float* bias = nullptr;
  const bf16* residual = nullptr;
  int64_t residual_stride = 0;
};

// c[r][n] += sum over the steps s of a[r][s] b[s][n]. Rows of a and b are dwords of U.
struct TileProduct {
  const void* a = nullptr;
  int64_t a_row_bytes = 0;   // distance from one row of the tile to the next
  int64_t a_step_bytes = 0;  // distance from one step to the next
  const void* b = nullptr;   // [step][kPanelCols], 64-byte aligned
  float* c = nullptr;        // whole vectors are read and written
  int64_t c_stride = 0;
  int64_t num_steps = 0;
  bool accumulate = false;  // false: c counts as zero and is not read
  bool streams = false;     // c is written past the caches; its rows are 64-byte aligned
  // If result.c is set, the result is written there and c is not. The columns are then whole
  // vectors of kLanes.
  TileResult result = {};
};

#if defined(__AVX512F__)
TRIREME_INLINE Register load_register(const float* p) { return _mm512_loadu_ps(p); }
TRIREME_INLINE void store_register(float* p, Register x) { _mm512_storeu_ps(p, x); }
TRIREME_INLINE void stream_register(float* p, Register x) { _mm512_stream_ps(p, x); }
TRIREME_INLINE Register zero_register() { return _mm512_setzero_ps(); }
#else
TRIREME_INLINE Register load_register(const float* p) { return _mm256_loadu_ps(p); }
TRIREME_INLINE void store_register(float* p, Register x) { _mm256_storeu_ps(p, x); }
TRIREME_INLINE void stream_register(float* p, Register x) { _mm256_stream_ps(p, x); }
TRIREME_INLINE Register zero_register() { return _mm256_setzero_ps(); }
#endif

// A dword of a in every lane.
TRIREME_INLINE Register broadcast_dword(const char* p) {
  struct [[gnu::packed, gnu::may_alias]] Unaligned {
    int value;
  };
  const int value = reinterpret_cast<const Unaligned*>(p)->value;
#if defined(__AVX512F__)
  return _mm512_castsi512_ps(_mm512_set1_epi32(value));
#else
  return _mm256_castsi256_ps(_mm256_set1_epi32(value));
#endif
}

template <typename U>
TRIREME_INLINE Register multiply_add(Register sum, Register a, Register b) {
#if defined(__AVX512BF16__)
  if constexpr (std::is_same_v<U, bf16>) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
  }
#endif
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, sum);
#else
  return _mm256_fmadd_ps(a, b, sum);
#endif
}

// Vector v of kLanes columns of a row of sums.
template <int kRegisters>
TRIREME_INLINE F32x16 vector_of(const Register (&row)[kRegisters], int v) {
#if defined(__AVX512F__)
  return {row[v]};
#else
  return {row[2 * v], row[2 * v + 1]};
#endif
}

// Writes sums from the registers, so that they need not be stored and loaded first.
template <int kRows, int kRegisters>
TRIREME_INLINE void write_tile(const TileResult& result, const Register (&sum)[kRows][kRegisters]) {
  constexpr int kVectors = kRegisters * kRegisterLanes / kLanes;
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    F32x16 x[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) x[v] = vector_of(sum[r], v);
    if (result.bias) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) x[v] = x[v] + load(result.bias + v * kLanes);
    }
    if (result.residual) {
      const bf16* const residual = result.residual + r * result.residual_stride;
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) x[v] = x[v] + load(residual + v * kLanes);
    }
    bf16* const c = result.c + r * result.c_stride;
#pragma GCC unroll 2
    for (int v = 0; v + 1 < kVectors; v += 2) store_pair(c + v * kLanes, x[v], x[v + 1]);
    if constexpr (kVectors % 2 != 0) {
      store_row(c + (kVectors - 1) * kLanes, x[kVectors - 1], kLanes);
    }
  }
}

template <typename U, int kRows, int kRegisters>
[[gnu::noinline]] void tile_product(const TileProduct& t) {
  Register sum[kRows][kRegisters];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kRegisters; ++v) {
      sum[r][v] =
          t.accumulate ? load_register(t.c + r * t.c_stride + v * kRegisterLanes) : zero_register();
    }
  }
  const char* a = static_cast<const char*>(t.a);
  const float* b = static_cast<const float*>(t.b);
  const float* const b_end = b + t.num_steps * kPanelCols;
  const int64_t row_bytes = t.a_row_bytes;
  const int64_t step_bytes = t.a_step_bytes;
  for (; b != b_end; b += kPanelCols, a += step_bytes) {
    Register b_step[kRegisters];
#pragma GCC unroll 4
    for (int v = 0; v < kRegisters; ++v) b_step[v] = load_register(b + v * kRegisterLanes);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const Register a_step = broadcast_dword(a + r * row_bytes);
#pragma GCC unroll 4
      for (int v = 0; v < kRegisters; ++v) {
        sum[r][v] = multiply_add<U>(sum[r][v], a_step, b_step[v]);
      }
    }
  }
  if constexpr (kRegisters * kRegisterLanes % kLanes == 0) {
    if (t.result.c != nullptr) return write_tile(t.result, sum);
  }
  if (t.streams) {
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kRegisters; ++v)
        stream_register(t.c + r * t.c_stride + v * kRegisterLanes, sum[r][v]);
    }
    return;
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kRegisters; ++v)
      store_register(t.c + r * t.c_stride + v * kRegisterLanes, sum[r][v]);
  }
}

// Does the same where a row of a lies in segments of `segment_steps` steps: segment s of row r
// begins at rows[s * kGroupRows + r].
struct SegmentProduct {
  const char* const* rows = nullptr;
  int64_t num_segments = 0;
  int64_t segment_steps = 0;
  const void* b = nullptr;
  float* c = nullptr;
  int64_t c_stride = 0;
  bool accumulate = false;
};

template <typename U, int kRows, int kRegisters>
[[gnu::noinline]] void segment_product(const SegmentProduct& t) {
  Register sum[kRows][kRegisters];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kRegisters; ++v) {
      sum[r][v] =
          t.accumulate ? load_register(t.c + r * t.c_stride + v * kRegisterLanes) : zero_register();
    }
  }
  const float* b = static_cast<const float*>(t.b);
  const int64_t segment_bytes = t.segment_steps * int64_t(sizeof(float));
  for (int64_t segment = 0; segment < t.num_segments; ++segment) {
    const char* a[kRows];
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) a[r] = t.rows[segment * kGroupRows + r];
    for (int64_t at = 0; at != segment_bytes; at += sizeof(float), b += kPanelCols) {
      Register b_step[kRegisters];
#pragma GCC unroll 4
      for (int v = 0; v < kRegisters; ++v) b_step[v] = load_register(b + v * kRegisterLanes);
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        const Register a_step = broadcast_dword(a[r] + at);
#pragma GCC unroll 4
        for (int v = 0; v < kRegisters; ++v) {
          sum[r][v] = multiply_add<U>(sum[r][v], a_step, b_step[v]);
        }
      }
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kRegisters; ++v)
      store_register(t.c + r * t.c_stride + v * kRegisterLanes, sum[r][v]);
  }
}

using TileProductFunction = void (*)(const TileProduct&);
using SegmentProductFunction = void (*)(const SegmentProduct&);

template <typename U, int kRows>
constexpr TileProductFunction kTileProductsOfRows[] = {
    tile_product<U, kRows, 1>,
    tile_product<U, kRows, 2>,
#if defined(__AVX512F__)
    tile_product<U, kRows, 3>,
    tile_product<U, kRows, 4>,
#endif
};

template <typename U, int kRows>
constexpr SegmentProductFunction kSegmentProductsOfRows[] = {
    segment_product<U, kRows, 1>,
    segment_product<U, kRows, 2>,
#if defined(__AVX512F__)
    segment_product<U, kRows, 3>,
    segment_product<U, kRows, 4>,
#endif
};

// Computes the product for 1 .. kGroupRows rows and 1 .. kPanelCols columns.
template <typename U>
TRIREME_INLINE TileProductFunction tile_product_for(int64_t rows, int64_t cols) {
  constexpr const TileProductFunction* kByRows[] = {
      kTileProductsOfRows<U, 1>, kTileProductsOfRows<U, 2>, kTileProductsOfRows<U, 3>,
      kTileProductsOfRows<U, 4>, kTileProductsOfRows<U, 5>, kTileProductsOfRows<U, 6>};
  return kByRows[rows - 1][(cols - 1) / kRegisterLanes];
}
template <typename U>
TRIREME_INLINE SegmentProductFunction segment_product_for(int64_t rows, int64_t cols) {
  constexpr const SegmentProductFunction* kByRows[] = {
      kSegmentProductsOfRows<U, 1>, kSegmentProductsOfRows<U, 2>, kSegmentProductsOfRows<U, 3>,
      kSegmentProductsOfRows<U, 4>, kSegmentProductsOfRows<U, 5>, kSegmentProductsOfRows<U, 6>};
  return kByRows[rows - 1][(cols - 1) / kRegisterLanes];
}

}  // namespace
}  // namespace trireme::TRIREME_ISA
