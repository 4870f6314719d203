#pragma once

#include <functional>
#include <vector>

#include "program/data_parallel.h"
#include "program/timeline.h"

namespace trireme {

// What the actions of one rank take: of exactly the units that they name.
struct OverlapCosts {
  std::function<double(const Action&)> compute_s;     // F, B, W, BW, Sum, Step
  std::function<double(const Action&)> collective_s;  // ReduceGrad over dp, Unshard
};

struct Overlap {
  double makespan_s = 0;
  double compute_s = 0;
  double link_s = 0;           // of all collectives
  double exposed_s = 0;        // the rank waits for a collective
  std::vector<Span> timeline;  // [action] when the rank was at it, waits included
};

// One rank, whose data-parallel peers all run the same program: collectives run one after the other
// on a link of their own while the rank computes, and are waited for as in the runtime: parameters
// before they are read, reduced gradients before Step, units' buffers before they are used again.
// What comes from other pipeline ranks is taken to be there.
Overlap simulate_overlap(const Program& program, const DataParallelShape& shape,
                         const OverlapCosts& costs);

}  // namespace trireme
