#pragma once

#include "base/result.h"
#include "program/make_schedule.h"
#include "sim/simulate.h"

namespace trireme {

struct SearchLimits {
  int max_live = 0;  // most activations (of a chunk, freed at W) alive on any rank; 0: 2 p v
};

Result<Schedule> search_schedule(const ScheduleShape& shape, const Costs& costs,
                                 const SearchLimits& limits);

}  // namespace trireme
