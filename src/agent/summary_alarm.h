#pragma once

#include <optional>
#include <string>

#include "base/corruption_alarm.h"

namespace trireme {

// Returns the last alarm of a check for silent corruption in the summary.json of a run, if the
// ranks have ended with it at `since_s` (Unix time) or later; nullopt: they have not, or the file
// is not there or damaged.
std::optional<CorruptionAlarm> alarm_of_summary(const std::string& run_dir, double since_s);

}  // namespace trireme
