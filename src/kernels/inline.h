#pragma once

// For everything that the *_cpu.cc files share. They are compiled once per instruction set, and the
// linker must not keep a weak symbol compiled for AVX-512 for all of them.
#define TRIREME_INLINE inline __attribute__((always_inline))
// Use this for a lambda: [&](auto lanes) TRIREME_INLINE_LAMBDA { ... }.
#define TRIREME_INLINE_LAMBDA __attribute__((always_inline))
