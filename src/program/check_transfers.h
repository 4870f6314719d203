#pragma once

#include <vector>

#include "program/check.h"

namespace trireme {

// Checks that every message is sent once after it is computed, received once before it is used, and
// by the right peers. Also checks that the schedule completes even if every Send and Recv blocks
// until both sides are there (rendezvous). It then also completes if they do not block.
std::vector<Problem> check_transfers(const Schedule& schedule);

}  // namespace trireme
