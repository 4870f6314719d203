#pragma once

#include <functional>
#include <vector>

#include "program/data_parallel.h"
#include "program/timeline.h"

namespace trireme {

// Durations of one rank's actions, for exactly the units that they name.
struct OverlapCosts {
  std::function<double(const Action&)> compute_s;     // for F, B, W, BW, Sum, Step
  std::function<double(const Action&)> collective_s;  // for ReduceGrad over dp, and Unshard
  double taken_share = 0.0;  // of the compute, that a collective takes while it runs
};

// Seconds by which compute becomes longer when a transfer runs beside it from its begin on and
// takes a share of its speed. The compute, or else the transfer, may be over first.
double slowdown_s(double compute_s, double transfer_s, double taken_share);

struct Overlap {
  double makespan_s = 0;
  double compute_s = 0;
  double link_s = 0;           // of all collectives
  double exposed_s = 0;        // time in which the rank waits for a collective or is slowed by one
  std::vector<Span> timeline;  // [action] when it ran, waits included
};

// Simulates one rank whose data-parallel peers all run the same program. Collectives run one after
// the other on their own link while the rank computes. The rank waits for them as in the runtime:
// for parameters before they are read, for reduced gradients before Step, for buffers of units
// before they are used again. Data from other pipeline ranks are assumed to be there.
Overlap simulate_overlap(const Program& program, const DataParallelShape& shape,
                         const OverlapCosts& costs);

}  // namespace trireme
