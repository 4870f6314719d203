#pragma once

#include <vector>

#include "program/check.h"

namespace trireme {

// Checks that every rank has a program, and that chunks, micro-batches and peers are within bounds
// (the first half of R1).
std::vector<Problem> check_shape(const Schedule& schedule);

// Checks R1-R4 and R6-R8 as far as the list of one rank shows them.
std::vector<Problem> check_order(const Schedule& schedule);

// Checks R5 for a schedule without transfers that passed check_order. The message lists the cycle.
std::vector<Problem> check_cycles(const Schedule& schedule);

}  // namespace trireme
