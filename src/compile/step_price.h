#pragma once

#include "compile/unit_price.h"

// The parts of a step's price that no unit has.
namespace trireme {

// Bytes of the optimizer state of one parameter (one number), its master weight included. With
// Muon, of a parameter in a matrix of a layer, which has the least state.
int64_t state_bytes(const StageShape& shape);

// Seconds in which Step updates so many parameters: it reads the gradients for the norm and again
// for the update, reads and writes the optimizer state, and writes the parameters.
double price_update(double elements, const StageShape& shape, const Hardware& hardware,
                    OfDevices which = OfDevices::Fastest);

// Compute ceiling of a rank for the compute dtype, by which MFU is computed: on a mixed cluster the
// mean over all ranks of the plan.
double peak_flops(const RunPlan& plan, const Hardware& hardware);

}  // namespace trireme
