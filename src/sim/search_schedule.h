#pragma once

#include <cstdint>

#include "base/result.h"
#include "program/make_schedule.h"
#include "sim/simulate.h"

namespace trireme {

struct SearchLimits {
  // Most activations of a chunk alive on any rank. Costs::held_for_w says which part of one B keeps
  // for W. 0: no limit.
  double max_live = 0;
  // Length of the search in simulated actions. So the result does not depend on the clock.
  int64_t budget = 20'000'000;
};

// Finds the best schedule for these times: the shortest makespan, then the smallest bubble of the
// longest span (to four digits, as the zero-bubble papers print it), then the least memory. The
// candidates are the named schedules with this number of chunks (1 if the shape says 0; without
// those that hold parameters twice) and greedy ones that use the times. Infeasible if the memory
// limit allows none.
Result<Schedule> search_schedule(const ScheduleShape& shape, const Costs& costs,
                                 const SearchLimits& limits);

}  // namespace trireme
