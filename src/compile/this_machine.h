#pragma once

#include "schema/ceilings.h"
#include "schema/hardware.h"

namespace trireme {

// Describes this machine from the measured compute ceilings alone. The memory bandwidth is assumed:
// 0.3 copied bytes per fp32 FLOP, a typical value for a core of a desktop or a server. `trireme
// calibrate` measures it.
Hardware assumed_hardware(const ComputeCeilings& ceilings);

// Adds what is known of the kernels of this program on a processor: the tile of attention, and the
// share of the peak that arithmetic on vectors reaches.
Hardware with_own_kernels(Hardware hardware);

}  // namespace trireme
