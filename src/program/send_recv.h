#pragma once

#include "schema/program.h"

namespace trireme {

// Times that decide where transfers are inserted. If they are the real times, no message waits for
// its Recv, and posted transfers cost no more than implicit ones.
struct TransferOrder {
  double f = 1;
  double b = 1;
  double w = 1;
  double comm = 0;
};

// Inserts a Send after every F and B whose result another rank needs. The Recv is inserted into the
// receiver's list before the action that runs while the message is computed, so that both
// directions are in flight at once. The lists are projections of one order of all actions by end
// time, so there is no deadlock, even if every transfer blocks until both sides are there or each
// rank does one transfer at a time. Keeps the order of everything else. Needs a schedule that
// passes check() and has no transfers.
Schedule add_send_recv(const Schedule& schedule, const TransferOrder& times = {});

}  // namespace trireme
