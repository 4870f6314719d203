#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/run_config.h"

namespace trireme {

// Returns a sentence for every check for silent corruption that is switched on but has no turn
// between `step`, after which the run begins or resumes, and its end, because its interval is too
// long. Training says so, because a run that was never checked looks like one without damage.
std::vector<std::string> idle_checks(const RunConfig& config, int64_t step);

}  // namespace trireme
