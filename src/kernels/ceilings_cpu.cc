#include "kernels/ceilings_cpu.h"

#include "kernels/matmul/micro_kernel.h"
#if defined(__AMX_BF16__)
#include "kernels/matmul/amx_tiles.h"
#endif

namespace trireme::TRIREME_ISA {
namespace {

constexpr int kChains = 12;  // more than latency times throughput of each instruction
constexpr int64_t kIterations = 10000;

// Hides the content of a register from the compiler, so that it neither folds nor hoists the loop.
TRIREME_INLINE Register opaque(Register x) {
  asm volatile("" : "+v"(x));
  return x;
}

#if defined(__AVX512F__)
TRIREME_INLINE void stream_past_caches(float* p, Register x) { _mm512_stream_ps(p, x); }
#else
TRIREME_INLINE void stream_past_caches(float* p, Register x) { _mm256_stream_ps(p, x); }
#endif

template <typename U>
float multiply_add_loop() {
  Register sum[kChains];
#pragma GCC unroll 12
  for (int chain = 0; chain < kChains; ++chain) sum[chain] = opaque(zero_register());
  Register a = opaque(zero_register());
  Register b = opaque(zero_register());
  for (int64_t i = 0; i < kIterations; ++i) {
#pragma GCC unroll 12
    for (int chain = 0; chain < kChains; ++chain) sum[chain] = multiply_add<U>(sum[chain], a, b);
    a = opaque(a);
  }
  float lanes[kRegisterLanes];
  float total = 0.0f;
#pragma GCC unroll 12
  for (int chain = 0; chain < kChains; ++chain) {
    store_register(lanes, sum[chain]);
    total += lanes[0];
  }
  return total;
}

#if defined(__AMX_BF16__)
constexpr int64_t kTileIterations = 1000;  // each takes 11 times as long as one of vector registers
constexpr int64_t kBf16Flops = kTileIterations * 2 * kPairRows * kPairCols * kChunkElements;

float bf16_loop() {
  TileRegisters registers;
  registers.shape(kPairRows, kPairCols);
  for (int64_t i = 0; i < kTileIterations; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  return 0.0f;
}
#else
using Bf16Step = ComputeType<bf16>;
constexpr int64_t kBf16Flops = kIterations * kChains * kRegisterLanes * 2 * kStepElements<Bf16Step>;

float bf16_loop() { return multiply_add_loop<Bf16Step>(); }
#endif

float read_loop(const float* x, int64_t count) {
  F32x16 sum[8];
  for (F32x16& part : sum) part = zeros();
  for (int64_t i = 0; i < count; i += 8 * kLanes) {
#pragma GCC unroll 8
    for (int part = 0; part < 8; ++part) sum[part] = sum[part] + load(x + i + part * kLanes);
  }
  for (int part = 1; part < 8; ++part) sum[0] = sum[0] + sum[part];
  return reduce_sum(sum[0]);
}

void copy_loop(const float* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; i += kRegisterLanes) {
    stream_past_caches(y + i, load_register(x + i));
  }
  _mm_sfence();
}

}  // namespace

const CeilingLoops kCeilingLoops = {
    .flops_of_fp32_call = kIterations * kChains * kRegisterLanes * 2,
    .flops_of_bf16_call = kBf16Flops,
    .fp32 = multiply_add_loop<float>,
    .bf16 = bf16_loop,
    .read = read_loop,
    .copy = copy_loop,
};

}  // namespace trireme::TRIREME_ISA
