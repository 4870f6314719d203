#pragma once

#include <vector>

#include "program/make_schedule.h"
#include "sim/simulate.h"

namespace trireme {

// How one greedy run decides. Whenever a rank is free it runs what is ready: B, else F, else a W
// that fits into the gap before the next input; the policy bounds how far F runs ahead.
struct GreedyPolicy {
  std::vector<int> max_ahead;  // [rank] forwards of chunk 0 that may be ahead of its backwards
  double fit_w = 0;            // a W runs if the gap is at least this fraction of it
  bool prefer_f = false;       // where F and B are both ready
  double max_live = 0;         // most activations alive on a rank
};

struct GreedyRun {
  bool is_complete = false;  // false: the memory allows no progress
  double makespan_s = 0;
  double longest_span_s = 0;
  double peak_live = 0;
  Schedule schedule;
};

// One schedule of F, B and W for these times, made by simulating and deciding at once. `shape`
// needs its chunks; loop or v placement.
GreedyRun greedy_schedule(const ScheduleShape& shape, StagePlacement placement, const Costs& costs,
                          const GreedyPolicy& policy);

}  // namespace trireme
