#pragma once

// Building blocks of the attention passes, for *_cpu.cc files only. Legend: D head_dim, P head_dim
// rounded up to whole vectors, O the same of the values, U the type that the registers multiply
// (micro_kernel.h).

#include <algorithm>

#include "kernels/attention/attention.h"
#include "kernels/matmul/pack.h"
#include "kernels/matmul/row_access.h"
#include "kernels/simd_philox.h"

namespace trireme::TRIREME_ISA {
namespace {

constexpr int64_t kTile = 64;  // queries or keys per tile: the width of a row of scores
constexpr int64_t kTileVectors = kTile / kLanes;
static_assert(kTile % kPanelCols == 0);
constexpr float kLog2E = 1.44269504f;
constexpr float kLn2 = 0.693147181f;

constexpr int64_t padded_dim(int64_t head_dim) { return num_steps_of(head_dim, kLanes) * kLanes; }
constexpr int64_t num_dim_panels(int64_t head_dim) { return num_steps_of(head_dim, kPanelCols); }

// Hands out parts of a thread's workspace, 64-byte aligned.
class WorkspaceCursor {
 public:
  explicit WorkspaceCursor(std::byte* begin) : next_(begin) {}
  template <typename E>
  TRIREME_INLINE E* take(int64_t count) {
    E* taken = reinterpret_cast<E*>(next_);
    next_ += (count * int64_t(sizeof(E)) + 63) / 64 * 64;
    return taken;
  }

 private:
  std::byte* next_;
};

#if !defined(__AVX512F__)
// Returns p 2^whole for p in [1, 2], where `whole` is the integral part of x; 0 if x is below -126.
// NaN stays NaN.
TRIREME_INLINE __m256 scale_normal(__m256 p, __m256 whole, __m256 x) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(whole), 23);
  const __m256i scaled = _mm256_add_epi32(_mm256_castps_si256(p), exponent);
  const __m256 is_normal = _mm256_cmp_ps(x, _mm256_set1_ps(-126.0f), _CMP_NLT_UQ);
  return _mm256_and_ps(_mm256_castsi256_ps(scaled), is_normal);
}
#endif

// Returns 2^x for x below 100, with a relative error of 3e-6 if T has two bytes and 2e-8 for fp32.
// Returns 0 for x = -inf, and on some instruction sets for every x below -126.
template <typename T>
TRIREME_INLINE F32x16 exp2_of(F32x16 x) {
#if defined(__AVX512F__)
  const F32x16 fraction{_mm512_reduce_ps(x.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
#else
  const F32x16 whole{_mm256_floor_ps(x.low), _mm256_floor_ps(x.high)};
  const F32x16 fraction = x - whole;
#endif
  F32x16 p;
  if constexpr (sizeof(T) == 2) {
    p = broadcast(1.342668571e-2f);
    p = fma(p, fraction, broadcast(5.224247277e-2f));
    p = fma(p, fraction, broadcast(2.412802130e-1f));
    p = fma(p, fraction, broadcast(6.930448413e-1f));
  } else {
    p = broadcast(2.161291632e-4f);
    p = fma(p, fraction, broadcast(1.246784581e-3f));
    p = fma(p, fraction, broadcast(9.675451554e-3f));
    p = fma(p, fraction, broadcast(5.548528209e-2f));
    p = fma(p, fraction, broadcast(2.402293086e-1f));
    p = fma(p, fraction, broadcast(6.931470633e-1f));
  }
  p = fma(p, fraction, broadcast(1.0f));
#if defined(__AVX512F__)
  return {_mm512_scalef_ps(p.v, x.v)};  // by 2^floor(x)
#else
  return {scale_normal(p.low, whole.low, x.low), scale_normal(p.high, whole.high, x.high)};
#endif
}

TRIREME_INLINE bool any_greater(F32x16 a, F32x16 b) {
  const Mask16 mask = b < a;
#if defined(__AVX512F__)
  return mask.bits != 0;
#else
  return !_mm256_testz_si256(_mm256_or_si256(mask.low, mask.high),
                             _mm256_or_si256(mask.low, mask.high));
#endif
}

TRIREME_INLINE void store_operand(float* p, F32x16 x) { store(p, x); }
TRIREME_INLINE void store_operand(bf16* p, F32x16 x) { store_row(p, x, kLanes); }
TRIREME_INLINE void store_operand(f16* p, F32x16 x) { store(p, x); }

// Rows that the micro-kernel reads as its left operand.
struct LeftRows {
  const char* data = nullptr;
  int64_t row_bytes = 0;
};

// Uses the rows in place if they have type U and whole steps; else copies them, widened or padded,
// to `copy`.
template <typename T>
constexpr bool reads_in_place(int64_t head_dim) {
  using U = ComputeType<T>;
  return std::is_same_v<T, U> && head_dim % kStepElements<U> == 0;
}
template <typename T>
LeftRows left_rows(const T* rows, int64_t stride, int64_t num_rows, int64_t head_dim,
                   ComputeType<T>* copy) {
  using U = ComputeType<T>;
  if (reads_in_place<T>(head_dim)) {
    return {reinterpret_cast<const char*>(rows), stride * int64_t(sizeof(T))};
  }
  const int64_t width = padded_dim(head_dim);
  for (int64_t r = 0; r < num_rows; ++r) {
    for (int64_t d = 0; d < width; d += kLanes) {
      store_operand(copy + r * width + d, load_row(rows + r * stride + d, head_dim - d));
    }
  }
  return {reinterpret_cast<const char*>(copy), width * int64_t(sizeof(U))};
}

// The rows of one head are far apart in memory, so the next ones are prefetched while this tile is
// computed.
template <typename T>
TRIREME_INLINE void prefetch_rows(const T* rows, int64_t stride, int64_t num_rows,
                                  int64_t head_dim) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t r = 0; r < num_rows; ++r) {
    for (int64_t d = 0; d < head_dim; d += kLine) __builtin_prefetch(rows + r * stride + d, 0, 2);
  }
}

// Packs kTile rows of D elements as columns: [panel][step of D][kPanelCols]. Missing rows are zero.
template <typename T>
void pack_columns(const T* rows, int64_t stride, int64_t num_rows, int64_t head_dim,
                  uint32_t* panels) {
  const int64_t num_steps = num_steps_of(head_dim, kStepElements<ComputeType<T>>);
  for (int64_t first = 0; first < kTile; first += kPanelCols) {
    const int64_t cols = std::clamp<int64_t>(num_rows - first, 0, kPanelCols);
    pack_transposed(rows + first * stride, stride, cols, head_dim, panels + first * num_steps);
  }
}

// Packs rows of D elements as steps: [panel of D][step of rows][kPanelCols]; panels are panel_steps
// apart.
template <typename T>
void pack_steps(const T* rows, int64_t stride, int64_t num_rows, int64_t head_dim,
                int64_t panel_steps, uint32_t* panels) {
  for (int64_t first = 0; first < head_dim; first += kPanelCols) {
    pack_interleaved(rows + first, stride, num_rows, std::min(kPanelCols, head_dim - first),
                     kPanelCols, panels + first * panel_steps);
  }
}

// scores[r][c] = row r times packed column c, for first_col <= c < end_col. first_col is a multiple
// of kLanes. Rows of scores are kTile apart.
template <typename U>
TRIREME_INLINE void score_product(LeftRows rows, int64_t num_rows, const uint32_t* panels,
                                  int64_t num_steps, int64_t first_col, int64_t end_col,
                                  float* scores) {
  TileProduct t;
  t.a = rows.data;
  t.a_row_bytes = rows.row_bytes;
  t.a_step_bytes = sizeof(float);
  t.c_stride = kTile;
  t.num_steps = num_steps;
  for (int64_t col = first_col; col < end_col;) {
    const int64_t panel_end = (col / kPanelCols + 1) * kPanelCols;
    const int64_t end = std::min(end_col, panel_end);
    t.b = panels + (panel_end - kPanelCols) * num_steps + col % kPanelCols;
    t.c = scores + col;
    tile_product_for<U>(num_rows, end - col)(t);
    col = panel_end;
  }
}

// out[r][d] += sum over steps of left[r][step] packed[step][d]. left.data points to the first step,
// `panels` to the same rows. Rows of out are padded_dim(D) apart.
template <typename U>
TRIREME_INLINE void value_product(LeftRows left, int64_t left_step_bytes, int64_t num_rows,
                                  const uint32_t* panels, int64_t panel_steps, int64_t num_steps,
                                  int64_t head_dim, float* out) {
  const int64_t width = padded_dim(head_dim);
  TileProduct t;
  t.a = left.data;
  t.a_row_bytes = left.row_bytes;
  t.a_step_bytes = left_step_bytes;
  t.c_stride = width;
  t.num_steps = num_steps;
  t.accumulate = true;
  for (int64_t d = 0; d < width; d += kPanelCols) {
    t.b = panels + d * panel_steps;
    t.c = out + d;
    tile_product_for<U>(num_rows, std::min(kPanelCols, width - d))(t);
  }
}

// The probabilities of one head of one sequence that dropout keeps.
struct DropoutOfHead {
  const AttentionDropout& dropout;
  uint64_t sample_and_head = 0;
};

TRIREME_INLINE DropoutOfHead dropout_of(const AttentionDropout& dropout, int64_t sequence,
                                        int64_t head) {
  return {dropout, (dropout.first_sample + uint64_t(sequence)) << 16 |
                       (dropout.first_head + uint64_t(head))};
}

// Returns 0 or the factor of a kept probability for 16 pairs of query and key; either the query or
// the key advances by one from pair to pair. The query is given as a key index: kv_len - q_len + i.
[[gnu::noinline]] void keep_factors(const DropoutOfHead& head, int64_t query, bool queries_advance,
                                    int64_t key, float* factors) {
  const AttentionDropout& dropout = head.dropout;
  alignas(64) uint32_t queries[16], keys[16];
  for (int64_t i = 0; i < kLanes; ++i) {
    queries[i] = uint32_t(dropout.queries.of(queries_advance ? query + i : query));
    keys[i] = uint32_t(dropout.keys.of(queries_advance ? key : key + i));
  }
  const PhiloxWords words = philox(
      dropout.key, {{load(keys), load(queries), broadcast_u32(uint32_t(head.sample_and_head)),
                     broadcast_u32(uint32_t(head.sample_and_head >> 32))}});
  const Mask16 dropped = uniform_float(words.word[0]) < broadcast(dropout.probability);
  store(factors, select(dropped, zeros(), broadcast(1.0f / (1.0f - dropout.probability))));
}

TRIREME_INLINE F32x16 keep_factors(const DropoutOfHead& head, int64_t query, bool queries_advance,
                                   int64_t key) {
  alignas(64) float factors[16];
  keep_factors(head, query, queries_advance, key, factors);
  return load(factors);
}

}  // namespace
}  // namespace trireme::TRIREME_ISA
