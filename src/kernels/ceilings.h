#pragma once

#include "device/isa.h"
#include "device/stream.h"
#include "schema/ceilings.h"

namespace trireme {

// Both measure until the fastest calls agree within 2 %, or for 0.3 s each. The first takes about
// 30 ms on an idle machine.
ComputeCeilings measure_compute_ceilings(Stream& stream, Isa isa);
// Takes about 200 ms on an idle machine, and allocates 128 MiB meanwhile.
Ceilings measure_ceilings(Stream& stream, Isa isa);

}  // namespace trireme
