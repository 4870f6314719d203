#pragma once

#include <algorithm>

namespace trireme {

// What the threads of a rank can do together on a machine, as measured: the peak under every
// utilisation.
struct ComputeCeilings {
  double fp32_flops_per_s = 0.0;  // multiply-adds in registers
  double bf16_flops_per_s = 0.0;  // products of pairs; without such an instruction: fp32's
};
// Returns the higher value of each ceiling of two measurements, because other programs may have
// used the cores during one of them.
inline ComputeCeilings greater_of(const ComputeCeilings& a, const ComputeCeilings& b) {
  return {std::max(a.fp32_flops_per_s, b.fp32_flops_per_s),
          std::max(a.bf16_flops_per_s, b.bf16_flops_per_s)};
}

struct Ceilings {
  ComputeCeilings compute;
  double read_bytes_per_s = 0.0;  // from memory, not from caches
  double copy_bytes_per_s = 0.0;  // read plus written
};

}  // namespace trireme
