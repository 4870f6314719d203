#pragma once

#include <cstdint>

#include "base/result.h"
#include "program/make_schedule.h"
#include "sim/simulate.h"

namespace trireme {

struct SearchLimits {
  // Most activations of a chunk alive on any rank; Costs::held_for_w says how much of one B leaves
  // for W. 0: no limit.
  double max_live = 0;
  // How long to search, in simulated actions; the result depends on it, not on the clock.
  int64_t budget = 20'000'000;
};

// The best schedule found for these times: least makespan, then least bubble of the longest span
// (to four digits, as the zero-bubble papers print it), then least memory. Candidates are the named
// schedules of this number of chunks (1 where shape says 0; those that hold parameters twice
// excepted) and greedy ones that know the times. Infeasible where the memory allows none.
Result<Schedule> search_schedule(const ScheduleShape& shape, const Costs& costs,
                                 const SearchLimits& limits);

}  // namespace trireme
