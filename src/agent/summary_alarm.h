#pragma once

#include <optional>
#include <string>

#include "base/corruption_alarm.h"

namespace trireme {

// Reads summary.json of a run. Returns the last alarm of a check for silent corruption, if the
// ranks have ended with it at `since_s` (Unix time) or later. Returns nullopt if they have not, or
// if the file is missing or damaged.
std::optional<CorruptionAlarm> alarm_of_summary(const std::string& run_dir, double since_s);

}  // namespace trireme
