#pragma once

#include <string>
#include <vector>

#include "store/store.h"

namespace trireme {

struct ServerHealth {
  ServerRecord record;
  int64_t num_chunks = 0;
  int64_t bytes = 0;
  std::string why_unusable;      // "": it can be used
  std::string metadata_problem;  // of its copy of the metadata; "": none is known
};

// How well the blocks of a store are protected, counting chunks on disks that can be used now. The
// copies of the metadata are read. The chunks are not; scrub_store does that.
struct StoreHealth {
  Overview overview;
  std::vector<ServerHealth> servers;
  std::vector<int64_t> blocks_lacking;  // element i: blocks that lack i chunks
  int64_t stored_bytes = 0;             // in all chunks
  int64_t bytes_at_risk = 0;  // data in blocks that lack chunks; they bear fewer losses than others
  int64_t bytes_lost = 0;     // data in blocks that lack more chunks than the code bears
  int64_t chunks_to_repair = 0;
  UpkeepProgress upkeep;                // of a scrub, a repair or a drain that is under way
  std::vector<std::string> lost_files;  // at most 100 of them
};
Result<StoreHealth> health_of(Store& store);
// "healthy", "degraded" (all files can be read) or "lost" (some cannot).
std::string_view word_of(const StoreHealth& health);
// Returns the number of the server that has this name or address. If there is none, the error names
// those that the store has.
Result<int> find_server(const Overview& overview, const std::string& name);

}  // namespace trireme
