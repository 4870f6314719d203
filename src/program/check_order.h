#pragma once

#include <vector>

#include "program/check.h"

namespace trireme {

// Programs for every rank, chunks, micro-batches and peers within bounds (R1's first half).
std::vector<Problem> check_shape(const Schedule& schedule);

// R1-R4 and R6-R8 as far as one rank's list shows them.
std::vector<Problem> check_order(const Schedule& schedule);

// R5, for a schedule without transfers that passed check_order: the cycle is spelled out.
std::vector<Problem> check_cycles(const Schedule& schedule);

}  // namespace trireme
