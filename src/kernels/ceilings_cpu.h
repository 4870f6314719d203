#pragma once

#include <cstdint>

namespace trireme {

// The measuring loops of the ceilings, for one thread and one instruction set.
struct CeilingLoops {
  int64_t flops_per_iteration_fp32 = 0;
  int64_t flops_per_iteration_bf16 = 0;
  float (*fp32)(int64_t iterations) = nullptr;
  float (*bf16)(int64_t iterations) = nullptr;
  float (*read)(const float* x, int64_t count) = nullptr;           // count: a multiple of 128
  void (*copy)(const float* x, float* y, int64_t count) = nullptr;  // y: 64-byte aligned
};

namespace avx2 {
extern const CeilingLoops kCeilingLoops;
}
// As in kernel_table.cc.
#ifdef TRIREME_WITHOUT_AVX512
namespace avx512 = avx2;
#else
namespace avx512 {
extern const CeilingLoops kCeilingLoops;
}
#endif
#ifdef TRIREME_WITHOUT_AVX512_BF16
namespace avx512_bf16 = avx2;
#else
namespace avx512_bf16 {
extern const CeilingLoops kCeilingLoops;
}
#endif
#ifdef TRIREME_WITHOUT_AMX_BF16
namespace amx_bf16 = avx2;
#else
namespace amx_bf16 {
extern const CeilingLoops kCeilingLoops;
}
#endif

}  // namespace trireme
