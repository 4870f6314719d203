#pragma once

#include <string>

#include "schema/run_config.h"

namespace trireme {

// Returns every field with its value, in the order of the file, for config.resolved.toml. It reads
// back to an equal configuration.
std::string to_toml(const RunConfig& config);

// Returns {"model":{"family":"gpt2",...},...} on one line. A number that is not finite is null.
std::string to_json(const RunConfig& config);

bool operator==(const RunConfig& a, const RunConfig& b);

}  // namespace trireme
