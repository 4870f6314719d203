#pragma once

#include <string_view>
#include <vector>

namespace trireme {

// The instruction sets that kernels are compiled for, weakest first.
enum class Isa { Avx2, Avx512, Avx512Bf16 };

std::string_view name_of(Isa isa);
// What this processor and operating system can run, weakest first; empty: not even AVX2 and FMA.
std::vector<Isa> supported_isas();

}  // namespace trireme
