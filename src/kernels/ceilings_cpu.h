#pragma once

#include <cstdint>

namespace trireme {

// The measuring loops of the ceilings, for one thread and one instruction set. A call that
// multiplies takes 20 to 100 microseconds.
struct CeilingLoops {
  int64_t flops_of_fp32_call = 0;
  int64_t flops_of_bf16_call = 0;
  float (*fp32)() = nullptr;
  float (*bf16)() = nullptr;
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
