#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "spec/schedule_shape.h"

namespace trireme {

// naive gpipe 1f1b interleaved zb_h1 zb_h2 zb_v dualpipe dualpipev
std::vector<std::string> schedule_kinds();

// Of one of schedule_kinds().
const ScheduleTraits& traits_of(std::string_view kind);

// By ScheduleTraits::live.
int least_live(std::string_view kind, const ScheduleShape& shape, int rank);

// Usage: a misspelt kind, or numbers that no schedule of the kind takes (chunks). Infeasible: a
// shape for which the kind has no schedule. The message has the rule, the numbers and the nearest
// choices.
Result<Schedule> make_schedule(std::string_view kind, const ScheduleShape& shape);

}  // namespace trireme
