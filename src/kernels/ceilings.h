#pragma once

#include "device/isa.h"
#include "device/stream.h"

namespace trireme {

// Measured peak of all threads of the stream on this machine. Utilisation is computed relative to
// it.
struct ComputeCeilings {
  double fp32_flops_per_s = 0.0;  // multiply-adds in registers
  // Products of pairs; fp32's peak if the CPU has no such instruction.
  double bf16_flops_per_s = 0.0;
};
struct Ceilings {
  ComputeCeilings compute;
  double read_bytes_per_s = 0.0;  // from memory, not from caches
  double copy_bytes_per_s = 0.0;  // read plus written
};

// Takes about 30 ms.
ComputeCeilings measure_compute_ceilings(Stream& stream, Isa isa);
// Takes about 200 ms and allocates 128 MiB meanwhile.
Ceilings measure_ceilings(Stream& stream, Isa isa);

}  // namespace trireme
