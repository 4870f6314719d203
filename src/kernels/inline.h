#pragma once

// For everything that the *_cpu.cc files share: they are compiled once per instruction set, and a
// weak symbol compiled for AVX-512 must never be what the linker keeps for everybody.
#define TRIREME_INLINE inline __attribute__((always_inline))
// The same for a lambda: [&](auto lanes) TRIREME_INLINE_LAMBDA { ... }.
#define TRIREME_INLINE_LAMBDA __attribute__((always_inline))
