#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "comm/tcp/rendezvous.h"

namespace trireme {

// The variables of the environment in which an agent gives a rank its place, with their values.
std::vector<std::pair<std::string, std::string>> variables_of(const TcpPlace& place);

// Reads a place back. `variable` returns the value of a variable, or "". Returns nullopt if the
// process was not started by an agent, and an error if a value is wrong.
Result<std::optional<TcpPlace>> place_in(
    const std::function<std::string(const std::string&)>& variable);

}  // namespace trireme
