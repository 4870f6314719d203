#pragma once

#include <vector>

#include "program/check.h"

namespace trireme {

// Every message between ranks is sent once after it was made and received once before it is used,
// by the right peers; and the schedule completes even when every Send and Recv blocks until both
// sides are there (rendezvous), which implies that it completes when they do not.
std::vector<Problem> check_transfers(const Schedule& schedule);

}  // namespace trireme
