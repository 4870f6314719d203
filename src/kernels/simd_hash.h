#pragma once

#include "base/block_hash.h"
#include "kernels/simd.h"

// XXH3 of vectors that are still in registers (base/block_hash.h). A vector of 16 words of 32 bits
// is a stripe.
namespace trireme::TRIREME_ISA {

#if defined(__AVX512F__)
struct HashLanes {
  __m512i v;
};
TRIREME_INLINE HashLanes lanes_of(const BlockHash& hash) { return {_mm512_load_si512(hash.lanes)}; }
TRIREME_INLINE void store(BlockHash& hash, HashLanes lanes) {
  _mm512_store_si512(hash.lanes, lanes.v);
}
TRIREME_INLINE HashLanes add_stripe(HashLanes lanes, U32x16 x, const unsigned char* secret) {
  const __m512i key = _mm512_xor_si512(x.v, _mm512_loadu_si512(secret));
  const __m512i product = _mm512_mul_epu32(key, _mm512_srli_epi64(key, 32));
  const __m512i swapped = _mm512_shuffle_epi32(x.v, _MM_PERM_BADC);
  return {_mm512_add_epi64(product, _mm512_add_epi64(lanes.v, swapped))};
}
TRIREME_INLINE HashLanes close_block(HashLanes lanes) {
  const __m512i secret = _mm512_loadu_si512(kHashSecret + 128);
  const __m512i mixed = _mm512_ternarylogic_epi64(lanes.v, _mm512_srli_epi64(lanes.v, 47), secret,
                                                  0x96);  // xor of three
  const __m512i prime = _mm512_set1_epi64(0x9E3779B1);
  const __m512i high = _mm512_mul_epu32(_mm512_srli_epi64(mixed, 32), prime);
  return {_mm512_add_epi64(_mm512_mul_epu32(mixed, prime), _mm512_slli_epi64(high, 32))};
}
// Past the caches, to memory on a 64-byte border.
TRIREME_INLINE void stream(float* p, F32x16 x) { _mm512_stream_ps(p, x.v); }
#else
struct HashLanes {
  __m256i low, high;
};
TRIREME_INLINE HashLanes lanes_of(const BlockHash& hash) {
  const auto* lanes = reinterpret_cast<const __m256i*>(hash.lanes);
  return {_mm256_load_si256(lanes), _mm256_load_si256(lanes + 1)};
}
TRIREME_INLINE void store(BlockHash& hash, HashLanes lanes) {
  auto* to = reinterpret_cast<__m256i*>(hash.lanes);
  _mm256_store_si256(to, lanes.low);
  _mm256_store_si256(to + 1, lanes.high);
}
TRIREME_INLINE __m256i add_half(__m256i lanes, __m256i x, const unsigned char* secret) {
  const __m256i key =
      _mm256_xor_si256(x, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(secret)));
  const __m256i product = _mm256_mul_epu32(key, _mm256_srli_epi64(key, 32));
  const __m256i swapped = _mm256_shuffle_epi32(x, _MM_SHUFFLE(1, 0, 3, 2));
  return _mm256_add_epi64(product, _mm256_add_epi64(lanes, swapped));
}
TRIREME_INLINE HashLanes add_stripe(HashLanes lanes, U32x16 x, const unsigned char* secret) {
  return {add_half(lanes.low, x.low, secret), add_half(lanes.high, x.high, secret + 32)};
}
TRIREME_INLINE __m256i close_half(__m256i lanes, const unsigned char* secret) {
  const __m256i mixed =
      _mm256_xor_si256(_mm256_xor_si256(lanes, _mm256_srli_epi64(lanes, 47)),
                       _mm256_loadu_si256(reinterpret_cast<const __m256i*>(secret)));
  const __m256i prime = _mm256_set1_epi64x(0x9E3779B1);
  const __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(mixed, 32), prime);
  return _mm256_add_epi64(_mm256_mul_epu32(mixed, prime), _mm256_slli_epi64(high, 32));
}
TRIREME_INLINE HashLanes close_block(HashLanes lanes) {
  return {close_half(lanes.low, kHashSecret + 128), close_half(lanes.high, kHashSecret + 160)};
}
TRIREME_INLINE void stream(float* p, F32x16 x) {
  _mm256_stream_ps(p, x.low);
  _mm256_stream_ps(p + 8, x.high);
}
#endif

inline constexpr int64_t kStripesOfBlock = kHashBlockBytes / kHashStripeBytes;

// Hashes one tensor vector by vector, from the begin of a block on, and writes it past the caches.
class HashedStream {
 public:
  TRIREME_INLINE HashedStream(float* to, const BlockHash& hash) : to_(to), lanes_(lanes_of(hash)) {}
  // Takes the vector from element `i` on, which is this stripe of its block.
  TRIREME_INLINE void take(int64_t i, int64_t stripe, F32x16 x) {
    lanes_ = add_stripe(lanes_, bits_of(x), kHashSecret + 8 * stripe);
    stream(to_ + i, x);
  }
  TRIREME_INLINE void end_block() { lanes_ = close_block(lanes_); }
  TRIREME_INLINE void end(BlockHash& hash) const { store(hash, lanes_); }

 private:
  float* to_;
  HashLanes lanes_;
};

}  // namespace trireme::TRIREME_ISA
