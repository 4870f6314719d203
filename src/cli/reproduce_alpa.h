#pragma once

#include <string>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

inline constexpr const char* kAlpaSuite = "alpa";

// `trireme reproduce alpa`: searches a plan op by op for every model of Alpa's suite on the devices
// of the paper, one row each. It takes minutes, so `reproduce` without a name leaves it out.
Result<int> run_reproduce_alpa(bool json, CommandIo& io);

}  // namespace trireme
