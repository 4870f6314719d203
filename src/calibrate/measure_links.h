#pragma once

#include "collectives/cost_model.h"
#include "predict/fit_operators.h"

namespace trireme {

struct MeasuredLinks {
  CommCost cost;              // between two ranks
  double background_s = 0.0;  // by which calls of the communication thread take longer
  double core_s_per_byte = 0.0;
};

// Measures collectives between 2, 4, ... ranks that are threads of this process, at most
// `most_ranks` of them but at least 2: those that layers make, and the algorithms that send
// messages. Adds them to `measured`. Returns what a ping-pong between two ranks finds, the
// speed of adding, and what the communication thread costs.
MeasuredLinks measure_links(int most_ranks, MeasuredOperators& measured);

}  // namespace trireme
