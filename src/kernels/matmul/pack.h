#pragma once

// Packs panels for the micro-kernel, for *_cpu.cc files only. A panel is [step][column] dwords,
// with kPanelCols columns, or for tile registers as many as they multiply at once. Columns and
// halves of a pair that the matrix does not have are zero and are never read from it.

#include <algorithm>

#include "kernels/matmul/micro_kernel.h"

namespace trireme::TRIREME_ISA {
namespace {

constexpr int64_t num_steps_of(int64_t k, int64_t step_elements) {
  return (k + step_elements - 1) / step_elements;
}

#if defined(__AVX512F__)
using IntVector = __m512i;
TRIREME_INLINE void store_dwords(uint32_t* p, IntVector x) { _mm512_storeu_si512(p, x); }
TRIREME_INLINE IntVector zero_ints() { return _mm512_setzero_si512(); }
// These return one half of every dword, which is a bf16, as fp32.
TRIREME_INLINE Register widened_low_halves(IntVector x) {
  return Register(_mm512_slli_epi32(x, 16));
}
TRIREME_INLINE Register widened_high_halves(IntVector x) {
  return Register(_mm512_and_si512(x, _mm512_set1_epi32(int32_t(0xffff0000u))));
}

TRIREME_INLINE uint32_t low_bits(int64_t count) {  // count in 0 .. 32
  return static_cast<uint32_t>((uint64_t{1} << count) - 1);
}

// Loads the next kRegisterLanes steps of one row as dwords. `valid` elements exist; the others are
// zero.
template <typename U>
TRIREME_INLINE IntVector load_steps(const float* p, int64_t valid) {
  if (valid >= kRegisterLanes) return _mm512_loadu_si512(p);
  return _mm512_maskz_loadu_epi32(static_cast<__mmask16>(low_bits(valid)), p);
}
template <typename U>
TRIREME_INLINE IntVector load_steps(const bf16* p, int64_t valid) {
  if constexpr (std::is_same_v<U, bf16>) {
    if (valid >= 2 * kRegisterLanes) return _mm512_loadu_si512(p);
    return _mm512_maskz_loadu_epi16(low_bits(valid), p);
  } else {
    const __mmask16 mask =
        valid >= kRegisterLanes ? 0xffff : static_cast<__mmask16>(low_bits(valid));
    return _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, p)), 16);
  }
}

template <typename U>
TRIREME_INLINE IntVector load_steps(const f16* p, int64_t valid) {
  const __mmask16 mask = valid >= kRegisterLanes ? 0xffff : static_cast<__mmask16>(low_bits(valid));
  return _mm512_castps_si512(_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, p)));
}

// Transposes dwords: rows[i][j] becomes rows[j][i].
TRIREME_INLINE void transpose_lanes(IntVector (&rows)[16]) {
  IntVector pairs[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {  // lane l of rows[4 g + c]: column 4 l + c of rows 4 g ..
    rows[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    pairs[c] = _mm512_shuffle_i32x4(rows[c], rows[4 + c], 0x88);
    pairs[4 + c] = _mm512_shuffle_i32x4(rows[c], rows[4 + c], 0xdd);
    pairs[8 + c] = _mm512_shuffle_i32x4(rows[8 + c], rows[12 + c], 0x88);
    pairs[12 + c] = _mm512_shuffle_i32x4(rows[8 + c], rows[12 + c], 0xdd);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    rows[c] = _mm512_shuffle_i32x4(pairs[c], pairs[8 + c], 0x88);
    rows[8 + c] = _mm512_shuffle_i32x4(pairs[c], pairs[8 + c], 0xdd);
    rows[4 + c] = _mm512_shuffle_i32x4(pairs[4 + c], pairs[12 + c], 0x88);
    rows[12 + c] = _mm512_shuffle_i32x4(pairs[4 + c], pairs[12 + c], 0xdd);
  }
}

#if defined(__AVX512BF16__)
// Joins two vectors: the pair of lane i is element i of `first` (low half) and of `second`.
TRIREME_INLINE __m512i joined_pairs(__m256i first, __m256i second) {
  constexpr auto place = [](int i) { return int16_t(i / 2 + (i % 2) * 16); };
  alignas(64) static constexpr int16_t kPlaces[32] = {
      place(0),  place(1),  place(2),  place(3),  place(4),  place(5),  place(6),  place(7),
      place(8),  place(9),  place(10), place(11), place(12), place(13), place(14), place(15),
      place(16), place(17), place(18), place(19), place(20), place(21), place(22), place(23),
      place(24), place(25), place(26), place(27), place(28), place(29), place(30), place(31)};
  return _mm512_permutexvar_epi16(_mm512_load_si512(kPlaces),
                                  _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1));
}
TRIREME_INLINE __m256i load_halves(const bf16* p, int64_t valid) {
  if (valid >= kRegisterLanes) return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm256_maskz_loadu_epi16(static_cast<__mmask16>(low_bits(valid)), p);
}
#endif

// Makes one step of kRegisterLanes columns from row `first` and, for pairs, the next row of k
// (null: zeros).
template <typename T>
TRIREME_INLINE IntVector interleaved(const T* first, [[maybe_unused]] const T* second,
                                     int64_t valid) {
#if defined(__AVX512BF16__)
  if constexpr (std::is_same_v<T, bf16>) {
    return joined_pairs(load_halves(first, valid),
                        second ? load_halves(second, valid) : _mm256_setzero_si256());
  }
#endif
  return load_steps<float>(first, valid);
}
#else
using IntVector = __m256i;
TRIREME_INLINE void store_dwords(uint32_t* p, IntVector x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x);
}
TRIREME_INLINE IntVector zero_ints() { return _mm256_setzero_si256(); }
// These return one half of every dword, which is a bf16, as fp32.
TRIREME_INLINE Register widened_low_halves(IntVector x) {
  return Register(_mm256_slli_epi32(x, 16));
}
TRIREME_INLINE Register widened_high_halves(IntVector x) {
  return Register(_mm256_and_si256(x, _mm256_set1_epi32(int32_t(0xffff0000u))));
}

template <typename U>
TRIREME_INLINE IntVector load_steps(const float* p, int64_t valid) {
  if (valid >= kRegisterLanes) return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  alignas(32) float padded[kRegisterLanes] = {};
  for (int64_t i = 0; i < valid; ++i) padded[i] = p[i];
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(padded));
}
template <typename U>
TRIREME_INLINE IntVector load_steps(const bf16* p, int64_t valid) {
  if constexpr (std::is_same_v<U, bf16>) {
    return load_at_most_16(p, std::min(valid, 2 * kRegisterLanes));
  } else {
    const __m128i halves = load_at_most_8(p, std::min(valid, kRegisterLanes));
    return _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16);
  }
}
template <typename U>
TRIREME_INLINE IntVector load_steps(const f16* p, int64_t valid) {
  return _mm256_castps_si256(_mm256_cvtph_ps(load_at_most_8(p, std::min(valid, kRegisterLanes))));
}

TRIREME_INLINE void transpose_lanes(IntVector (&rows)[8]) {
  IntVector pairs[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_epi32(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_epi32(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    rows[i] = _mm256_unpacklo_epi64(pairs[i], pairs[i + 2]);
    rows[i + 1] = _mm256_unpackhi_epi64(pairs[i], pairs[i + 2]);
    rows[i + 2] = _mm256_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    rows[i + 3] = _mm256_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const IntVector low = rows[c];
    const IntVector high = rows[4 + c];
    rows[c] = _mm256_permute2x128_si256(low, high, 0x20);
    rows[4 + c] = _mm256_permute2x128_si256(low, high, 0x31);
  }
}

template <typename T>
TRIREME_INLINE IntVector interleaved(const T* first, const T*, int64_t valid) {
  return load_steps<float>(first, valid);
}
#endif

// Prefetches one line of each row from which the next columns of a panel are made. A prefetch
// beyond the matrix does nothing.
template <typename T>
TRIREME_INLINE void prefetch_next_columns(const T* row, int64_t stride) {
  for (int64_t lane = kRegisterLanes; lane < 2 * kRegisterLanes; ++lane) {
    __builtin_prefetch(row + lane * stride);
  }
}

// Packs a panel of kWidth columns from `cols` rows of b, at most kWidth, whose elements run along
// k.
template <int64_t kWidth = kPanelCols, typename T>
void pack_transposed(const T* b, int64_t stride, int64_t cols, int64_t k, uint32_t* panel) {
  using U = ComputeType<T>;
  const int64_t num_steps = num_steps_of(k, kStepElements<U>);
  for (int64_t col = 0; col < kWidth; col += kRegisterLanes) {
    for (int64_t step = 0; step < num_steps; step += kRegisterLanes) {
      const int64_t done = step * kStepElements<U>;
      if (done % (64 / int64_t(sizeof(T))) == 0)
        prefetch_next_columns(b + col * stride + done, stride);
      IntVector rows[kRegisterLanes];
#pragma GCC unroll 16
      for (int64_t lane = 0; lane < kRegisterLanes; ++lane) {
        rows[lane] = col + lane < cols ? load_steps<U>(b + (col + lane) * stride + done, k - done)
                                       : zero_ints();
      }
      transpose_lanes(rows);
      const int64_t steps = num_steps - step < kRegisterLanes ? num_steps - step : kRegisterLanes;
      uint32_t* out = panel + step * kWidth + col;
      if (steps == kRegisterLanes) {
#pragma GCC unroll 16
        for (int64_t lane = 0; lane < kRegisterLanes; ++lane)
          store_dwords(out + lane * kWidth, rows[lane]);
      } else {
#pragma GCC unroll 16
        for (int64_t lane = 0; lane < kRegisterLanes; ++lane) {
          if (lane < steps) store_dwords(out + lane * kWidth, rows[lane]);
        }
      }
    }
  }
}

// Prefetches a piece of a row, whose first and last line need not be whole.
template <typename T>
TRIREME_INLINE void prefetch_piece(const T* piece, int64_t cols) {
  for (int64_t col = 0; col < cols; col += 64 / int64_t(sizeof(T))) {
    __builtin_prefetch(piece + col);
  }
  __builtin_prefetch(piece + cols - 1);
}

// Rows are far apart in memory, which hardware prefetchers do not follow.
constexpr int64_t kRowsAhead = 16;

template <typename T>
TRIREME_INLINE void prefetch_rows_ahead(const T* row, int64_t stride, int64_t rows_left,
                                        int64_t cols, int64_t num_rows) {
  if (rows_left <= kRowsAhead) return;
  for (int64_t ahead = kRowsAhead; ahead < kRowsAhead + num_rows; ++ahead) {
    prefetch_piece(row + ahead * stride, cols);
  }
}

// Packs [step][width] dwords from k rows of b, whose elements run along the `cols` columns. width
// is a multiple of kRegisterLanes.
template <typename T>
void pack_interleaved(const T* b, int64_t stride, int64_t k, int64_t cols, int64_t width,
                      uint32_t* out) {
  constexpr int64_t kElements = kStepElements<ComputeType<T>>;
  for (int64_t row = 0; row < k; row += kElements, out += width, b += kElements * stride) {
    const T* second = row + 1 < k ? b + stride : nullptr;
    prefetch_rows_ahead(b, stride, k - row, cols, kElements);
    for (int64_t col = 0; col < width; col += kRegisterLanes) {
      const int64_t valid = cols - col;
      if (valid <= 0) {
        store_dwords(out + col, zero_ints());
      } else {
        store_dwords(out + col, interleaved(b + col, second ? second + col : nullptr, valid));
      }
    }
  }
}

// Splits rows into groups for the micro-kernel. The first ones may have one row more.
class RowGroups {
 public:
  explicit RowGroups(int64_t rows)
      : count_(num_steps_of(rows, kGroupRows)),
        height_(count_ == 0 ? 0 : rows / count_),
        num_higher_(rows - count_ * height_),
        rows_(rows) {}
  int64_t rows() const { return rows_; }
  int64_t count() const { return count_; }
  int64_t begin(int64_t group) const { return group * height_ + std::min(group, num_higher_); }

 private:
  int64_t count_, height_, num_higher_, rows_;
};

// Whole vectors are written, so the last vector of a group may end after the group.
constexpr int64_t packed_group_dwords(int64_t num_steps) {
  return num_steps * kGroupRows + kRegisterLanes;
}

// Packs [group][step][kGroupRows] dwords from k rows of the transposed a, whose elements run along
// its columns. A group is one stream of whole cache lines. There are at most kMostGroups groups.
constexpr int64_t kMostGroups = 24;

template <typename T>
void pack_groups(const T* a, int64_t stride, int64_t k, const RowGroups& groups,
                 int64_t group_dwords, uint32_t* out) {
  constexpr int64_t kElements = kStepElements<ComputeType<T>>;
  const int64_t num_groups = groups.count();
  int64_t begin[kMostGroups];
  for (int64_t g = 0; g < num_groups; ++g) begin[g] = groups.begin(g);
  for (int64_t row = 0; row < k; row += kElements, out += kGroupRows, a += kElements * stride) {
    const T* second = row + 1 < k ? a + stride : nullptr;
    prefetch_rows_ahead(a, stride, k - row, groups.rows(), kElements);
    for (int64_t g = 0; g < num_groups; ++g) {
      const int64_t col = begin[g];
      store_dwords(out + g * group_dwords,
                   interleaved(a + col, second ? second + col : nullptr, groups.rows() - col));
    }
  }
}

}  // namespace
}  // namespace trireme::TRIREME_ISA
