#include "device/isa.h"

#include <cpuid.h>

namespace trireme {
namespace {

bool has_avx512_bf16() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (eax & (1u << 5)) != 0;
}

}  // namespace

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::Avx2:
      return "avx2";
    case Isa::Avx512:
      return "avx512";
    case Isa::Avx512Bf16:
      return "avx512_bf16";
  }
  return "?";
}

std::vector<Isa> supported_isas() {
  __builtin_cpu_init();
  std::vector<Isa> isas;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return isas;
  isas.push_back(Isa::Avx2);
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (!avx512) return isas;
  isas.push_back(Isa::Avx512);
  if (has_avx512_bf16()) isas.push_back(Isa::Avx512Bf16);
  return isas;
}

}  // namespace trireme
