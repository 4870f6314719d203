#pragma once

#include <string_view>
#include <vector>

namespace trireme {

// The instruction sets for which kernels are compiled, weakest first.
enum class Isa { Avx2, Avx512, Avx512Bf16, AmxBf16 };

std::string_view name_of(Isa isa);
// Returns the instruction sets that this processor and operating system support and for which this
// build has kernels (a build for a sanitizer leaves some out, see CMakeLists.txt), weakest first.
// It is empty without AVX2 and FMA. The system permits tile registers to this process on this call.
std::vector<Isa> supported_isas();

}  // namespace trireme
