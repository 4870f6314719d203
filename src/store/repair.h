#pragma once

#include <string>
#include <vector>

#include "store/chunk_mover.h"
#include "store/store.h"

namespace trireme {

// Tells the metadata that chunks are lost, which puts their blocks into the queue for repair.
Status note_losses(Store& store, const std::vector<Move>& losses);

// Recovers the chunks of all blocks in the queue and writes them to servers that do not hold a
// chunk of their block.
Result<RepairTotals> repair(Store& store);

struct ScrubTotals {
  int64_t num_chunks = 0;
  int64_t num_damaged = 0;
  int64_t num_missing = 0;
  int64_t num_unreadable = 0;  // of disks that cannot be used now
  int64_t num_orphans = 0;     // removed: files of chunks that no block has or that a crash cut off
  RepairTotals repaired;
};

// Takes in new disks of a shared store, reads every chunk, repairs what is damaged or missing, and
// removes chunks that no block has. In a shared store it ends the tokens of writers that are dead,
// and waits for their leases if there are such writers.
Result<ScrubTotals> scrub_store(Store& store);

// Moves all chunks of a server to others. If the server is gone, they are recovered from the other
// chunks. The server gets no new ones. Returns an error if other servers cannot take all of them.
Result<RepairTotals> drain_server(Store& store, const std::string& server);

}  // namespace trireme
