#pragma once

// The products of a query of one head with its keys and values, as generation needs them for every
// token, for *_cpu.cc files only. Packing would serve few rows, so keys and values are read in
// place. The bits are those of score_product and value_product.

#include "kernels/attention/attention_tile.h"
#include "kernels/matmul/row_chains.h"

namespace trireme::TRIREME_ISA {
namespace {

// scores[c] = the query times row c of k. The query is stored as in LeftRows.
template <typename T>
void row_scores(const char* query, const T* k, int64_t stride, int64_t num_keys, int64_t head_dim,
                float* scores) {
  static_assert(std::is_same_v<RowType<T>, ComputeType<T>>);  // tile registers sum in another order
  for (int64_t key = 0; key < num_keys; key += kRowCols) {
    row_sums<T>({k + key * stride, stride, std::min(kRowCols, num_keys - key), head_dim},
                reinterpret_cast<const uint32_t*>(query), nullptr, scores + key);
  }
}

// Adds sum over the keys of p[key] v[key][d] to out[d], for kRegisters registers of d. Elements of
// v from `valid` on do not exist.
template <int kRegisters, typename T>
TRIREME_INLINE void add_values(const ComputeType<T>* p, const T* v, int64_t stride,
                               int64_t num_keys, int64_t valid, float* out) {
  using U = ComputeType<T>;
  Register sum[kRegisters];
#pragma GCC unroll 8
  for (int i = 0; i < kRegisters; ++i) sum[i] = load_register(out + i * kRegisterLanes);
  for (int64_t key = 0; key < num_keys; key += kStepElements<U>) {
    const T* const first = v + key * stride;
    const T* const second = key + 1 < num_keys ? first + stride : nullptr;  // of a pair
    const Register weight = broadcast_dword(reinterpret_cast<const char*>(p + key));
#pragma GCC unroll 8
    for (int i = 0; i < kRegisters; ++i) {
      const int64_t d = i * kRegisterLanes;
      const IntVector values =
          d < valid ? interleaved(first + d, second ? second + d : nullptr, valid - d)
                    : zero_ints();
      sum[i] = multiply_add<U>(sum[i], weight, Register(values));
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRegisters; ++i) store_register(out + i * kRegisterLanes, sum[i]);
}

// Does so for all elements d. Whole vectors of `out` are written.
template <typename T>
void row_values(const ComputeType<T>* p, const T* v, int64_t stride, int64_t num_keys,
                int64_t out_dim, float* out) {
  constexpr int kPerVector = int(kLanes / kRegisterLanes);
  constexpr int64_t kWide = 4 * kLanes;
  int64_t d = 0;
  for (; d + kWide <= out_dim; d += kWide) {
    add_values<4 * kPerVector>(p, v + d, stride, num_keys, kWide, out + d);
  }
  for (; d < out_dim; d += kLanes) {
    add_values<kPerVector>(p, v + d, stride, num_keys, out_dim - d, out + d);
  }
}

}  // namespace
}  // namespace trireme::TRIREME_ISA
