#pragma once

#include "device/isa.h"
#include "device/stream.h"
#include "schema/ceilings.h"

namespace trireme {

// Takes about 30 ms.
ComputeCeilings measure_compute_ceilings(Stream& stream, Isa isa);
// Takes about 200 ms and allocates 128 MiB meanwhile.
Ceilings measure_ceilings(Stream& stream, Isa isa);

}  // namespace trireme
