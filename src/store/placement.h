#pragma once

#include <vector>

#include "store/metadata_command.h"

namespace trireme {

// Orders the servers that can take a chunk of a block: usable ones that are active and have room.
// Failure domains take turns, beginning with those that hold the fewest of the chunks on `held`,
// and within them servers with more room come first more often. The order depends on the block, so
// that all servers get their share of chunks.
std::vector<int> servers_for_block(const Overview& overview, const std::vector<bool>& is_usable,
                                   uint64_t block, int64_t chunk_bytes,
                                   const std::vector<int32_t>& held = {});

}  // namespace trireme
