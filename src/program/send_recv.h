#pragma once

#include "spec/program.h"

namespace trireme {

// Times that decide where transfers stand in a list. Where they are the real ones, no message waits
// for its Recv: posted transfers then cost what implicit ones would.
struct TransferOrder {
  double f = 1;
  double b = 1;
  double w = 1;
  double comm = 0;
};

// Inserts a Send after every F and B whose result is needed on another rank, and the Recv into the
// receiver's list before the action that runs while the message is made, so that both directions
// are in flight at once. The lists are projections of one order of all actions by end time: no
// deadlock, not even when every transfer blocks until both sides are there, or each rank does one
// at a time. Preserves the order of everything else. Needs a schedule that passes check() and has
// no transfers.
Schedule add_send_recv(const Schedule& schedule, const TransferOrder& times = {});

}  // namespace trireme
