#pragma once

#include <vector>

#include "program/make_schedule.h"
#include "sim/simulate.h"

namespace trireme {

// The policy of one greedy run. A free rank runs what is ready: B, else F, else a W that fits into
// the gap before the next input. The policy limits how far F runs ahead.
struct GreedyPolicy {
  std::vector<int> max_ahead;  // [rank] how many forwards of chunk 0 may be ahead of its backwards
  double fit_w = 0;            // a W runs if the gap is at least this fraction of it
  bool prefer_f = false;       // if F and B are both ready
  double max_live = 0;         // most activations alive on a rank
};

struct GreedyRun {
  bool is_complete = false;  // false: the memory limit allows no progress
  double makespan_s = 0;
  double longest_span_s = 0;
  double peak_live = 0;
  Schedule schedule;
};

// Makes a schedule of F, B and W for these times by simulating and deciding at once. The chunks of
// `shape` must be set; the placement is loop or v.
GreedyRun greedy_schedule(const ScheduleShape& shape, StagePlacement placement, const Costs& costs,
                          const GreedyPolicy& policy);

}  // namespace trireme
