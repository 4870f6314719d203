#pragma once

#include <string>

#include "spec/run_config.h"

namespace trireme {

// Every field with its value, in the order of the file: config.resolved.toml. Reads back to an
// equal configuration.
std::string to_toml(const RunConfig& config);

// {"model":{"family":"gpt2",...},...} on one line; a non-finite number is null.
std::string to_json(const RunConfig& config);

bool operator==(const RunConfig& a, const RunConfig& b);

}  // namespace trireme
