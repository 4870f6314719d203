#pragma once

#include "device/isa.h"
#include "device/stream.h"
#include "spec/ceilings.h"

namespace trireme {

// About 30 ms.
ComputeCeilings measure_compute_ceilings(Stream& stream, Isa isa);
// About 200 ms; allocates 128 MiB for its duration.
Ceilings measure_ceilings(Stream& stream, Isa isa);

}  // namespace trireme
