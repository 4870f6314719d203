#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "comm/tcp/rendezvous.h"

namespace trireme {

// The secret of the job in the environment of its ranks, of agents and of the launcher.
inline constexpr const char* kSecretVariable = "TRIREME_SECRET";
// A folder in the memory of the host for checkpoints, which the launcher owns (MemoryFolder).
inline constexpr const char* kMemoryFolderVariable = "TRIREME_MEMORY_FOLDER";
// The failure domain of the host, such as its rack (NamedHost::domain).
inline constexpr const char* kFailureDomainVariable = "TRIREME_FAILURE_DOMAIN";
// The number of ranks on the host of a rank, as a variable of its environment.
inline constexpr const char* kRanksOnHostVariable = "TRIREME_RANKS_ON_HOST";

// The variables of the environment in which an agent gives a rank its place, with their values.
std::vector<std::pair<std::string, std::string>> variables_of(const TcpPlace& place,
                                                              int ranks_on_host);

// Reads a place back. `variable` returns the value of a variable, or "". Returns nullopt if the
// process was not started by an agent, and an error if a value is wrong.
Result<std::optional<TcpPlace>> place_in(
    const std::function<std::string(const std::string&)>& variable);

}  // namespace trireme
