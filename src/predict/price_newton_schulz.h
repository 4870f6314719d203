#pragma once

#include "memory/chunk_tables.h"
#include "schema/hardware.h"

namespace trireme {

// Returns the seconds in which Muon makes one matrix orthogonal: the matrix products of all
// iterations, and the passes over memory between them. On a mixed cluster, the slowest device
// counts.
double price_newton_schulz(const WholeMatrix& matrix, const StageShape& shape,
                           const Hardware& hardware);

}  // namespace trireme
