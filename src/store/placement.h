#pragma once

#include <vector>

#include "store/metadata_command.h"

namespace trireme {

// Returns the usable, active servers with room for a chunk of a block, in the order in which to try
// them. Failure domains take turns, beginning with those that have the fewest of the servers
// `held`. Within a domain, servers with more room come first more often. The order depends on the
// block, so that all servers get their share of chunks.
std::vector<int> servers_for_block(const Overview& overview, const std::vector<bool>& is_usable,
                                   uint64_t block, int64_t chunk_bytes,
                                   const std::vector<int32_t>& held = {});

}  // namespace trireme
