#include "device/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace trireme {
namespace {

bool has_avx512_bf16() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (eax & (1u << 5)) != 0;
}

// Tile registers are large, so Linux gives them only to processes that ask for them.
[[maybe_unused]] bool has_amx_bf16() {
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // of arch_prctl
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & kAmxBf16) == 0 || (edx & kAmxTile) == 0) return false;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
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
    case Isa::AmxBf16:
      return "amx_bf16";
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
#ifndef TRIREME_WITHOUT_AVX512
  isas.push_back(Isa::Avx512);
#endif
  if (!has_avx512_bf16()) return isas;
#ifndef TRIREME_WITHOUT_AVX512_BF16
  isas.push_back(Isa::Avx512Bf16);
#endif
#ifndef TRIREME_WITHOUT_AMX_BF16
  if (has_amx_bf16()) isas.push_back(Isa::AmxBf16);
#endif
  return isas;
}

}  // namespace trireme
