#pragma once

#include <iosfwd>
#include <string>

#include "cli/schedule_command.h"

namespace trireme {

// `trireme schedule --compare KIND,KIND,...` compares schedules of the same model on the same
// ranks. It writes a table, or draws the schedules over one time axis. The durations in `options`
// are those of 1/P of the model (P: ranks). A rank that holds n chunks needs 1/n of them for each
// chunk. `kinds` are separated by commas; an unknown kind is a Usage error.
Status compare_schedules(const std::string& kinds, const ScheduleOptions& options,
                         std::ostream& out);

}  // namespace trireme
