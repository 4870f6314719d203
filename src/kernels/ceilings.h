#pragma once

#include "device/isa.h"
#include "device/stream.h"

namespace trireme {

// What the stream's threads can do together on this machine, now: the peak under every utilisation.
struct ComputeCeilings {
  double fp32_flops_per_s = 0.0;  // multiply-adds in registers
  double bf16_flops_per_s = 0.0;  // products of pairs; without such an instruction: fp32's
};
struct Ceilings {
  ComputeCeilings compute;
  double read_bytes_per_s = 0.0;  // from memory, not from caches
  double copy_bytes_per_s = 0.0;  // read plus written
};

// About 30 ms.
ComputeCeilings measure_compute_ceilings(Stream& stream, Isa isa);
// About 200 ms; allocates 128 MiB for its duration.
Ceilings measure_ceilings(Stream& stream, Isa isa);

}  // namespace trireme
