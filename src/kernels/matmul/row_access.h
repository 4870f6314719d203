#pragma once

// Vectors at the end of a row, for *_cpu.cc files only: `valid` elements of the vector exist (all
// of them if it is kLanes or more). The others read as zero and are not written.

#include <type_traits>

#include "kernels/simd.h"

namespace trireme::TRIREME_ISA {
namespace {

template <typename T>
TRIREME_INLINE F32x16 load_row(const T* p, int64_t valid) {
  return valid >= kLanes ? load(p) : load(p, FirstLanes{valid});
}

// Rounds to bf16 with the processor's instruction, which flushes denormals. That changes nothing,
// because the bf16 products have flushed theirs already.
TRIREME_INLINE __m256i round_to_bf16(F32x16 x) {
#if defined(__AVX512BF16__)
  return (__m256i)_mm512_cvtneps_pbh(x.v);
#else
  return narrow_bf16(x);
#endif
}

TRIREME_INLINE void store_row(float* p, F32x16 x, int64_t valid) {
  if (valid >= kLanes) {
    store(p, x);
  } else {
    store(p, x, FirstLanes{valid});
  }
}
TRIREME_INLINE void store_row(bf16* p, F32x16 x, int64_t valid) {
  if (valid >= kLanes) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), round_to_bf16(x));
    return;
  }
#if defined(__AVX512F__)
  _mm256_mask_storeu_epi16(p, FirstLanes{valid}.mask(), round_to_bf16(x));
#else
  store(p, x, FirstLanes{valid});
#endif
}

// Stores the kLanes elements of x, and those of y behind them.
TRIREME_INLINE void store_pair(bf16* p, F32x16 x, F32x16 y) {
#if defined(__AVX512BF16__)
  _mm512_storeu_si512(p, (__m512i)_mm512_cvtne2ps_pbh(y.v, x.v));
#else
  store_row(p, x, kLanes);
  store_row(p + kLanes, y, kLanes);
#endif
}

TRIREME_INLINE void store_row(f16* p, F32x16 x, int64_t valid) {
  if (valid >= kLanes) {
    store(p, x);
  } else {
    store(p, x, FirstLanes{valid});
  }
}

}  // namespace
}  // namespace trireme::TRIREME_ISA
