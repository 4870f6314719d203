#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "schema/schedule_shape.h"

namespace trireme {

// Returns naive, gpipe, 1f1b, interleaved, zb_h1, zb_h2, zb_v, dualpipe and dualpipev.
std::vector<std::string> schedule_kinds();

// `kind` must be one of schedule_kinds().
const ScheduleTraits& traits_of(std::string_view kind);

// The number that ScheduleTraits::live stands for.
int least_live(std::string_view kind, const ScheduleShape& shape, int rank);
// At some time a rank holds the activations of at least so many forward passes of single chunks.
int least_held(std::string_view kind, const ScheduleShape& shape, int rank);

// Usage error: a misspelt kind, or numbers that no schedule of the kind accepts (chunks).
// Infeasible: the kind has no schedule for this shape. The message has the rule, the numbers and
// the nearest valid choices.
Result<Schedule> make_schedule(std::string_view kind, const ScheduleShape& shape);

}  // namespace trireme
