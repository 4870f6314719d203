#pragma once

#include <vector>

#include "comm/shared_board.h"

namespace trireme {

// Makes the call `repeat` times with MPI's own blocking collective over all ranks, each after an
// MPI barrier, and returns the seconds of each. Returns an empty vector if MPI has no collective
// for the dtype.
std::vector<double> time_native_collective(const SharedBoard::Call& call, int size, int rank,
                                           int repeat);

}  // namespace trireme
