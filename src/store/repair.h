#pragma once

#include <string>
#include <vector>

#include "store/chunk_mover.h"
#include "store/store.h"
#include "store/upkeep_meter.h"

namespace trireme {

// Tells the metadata that chunks are lost, which puts their blocks into the queue for repair.
Status note_losses(Store& store, const std::vector<Move>& losses);

// Takes in servers of a shared store that run with an empty disk, if every file can be read without
// their old disks, or if the store was opened to take them all.
Status take_in_new_disks(Store& store);

// Recovers the chunks of all blocks in the queue, and writes them to servers that do not hold a
// chunk of their block.
Result<RepairTotals> repair_queue(Store& store, const OnProgress& on_progress = {});
// Does this after it has taken in new disks.
Result<RepairTotals> repair(Store& store, const OnProgress& on_progress = {});

// Recovers the chunks of servers that do not come back, as far as other servers can take them.
Result<RepairTotals> move_from_lost_servers(Store& store, const std::vector<int>& lost,
                                            const OnProgress& on_progress = {});

// Looks on all servers for intact files of chunks that count as lost, and tells the metadata where
// they are. Returns their number.
Result<int64_t> find_lost_chunks(Store& store);

struct ScrubTotals {
  int64_t num_chunks = 0;
  int64_t num_damaged = 0;
  int64_t num_missing = 0;
  int64_t num_unreadable = 0;  // of disks that cannot be used now
  int64_t num_orphans = 0;     // removed: files of chunks that no block has or that a crash cut off
  int64_t num_mended_metadata = 0;  // copies of the metadata that were damaged, missing or old
  RepairTotals repaired;
};

// Takes in new disks of a shared store, reads every chunk and every copy of the metadata, repairs
// what is damaged or missing, and removes chunks that no block has. In a shared store it ends the
// tokens of writers that are dead, and waits for their leases if there are such writers.
Result<ScrubTotals> scrub_store(Store& store, const OnProgress& on_progress = {});

// Moves all chunks of a server to others. If the server is gone, they are recovered from the other
// chunks. The server gets no new ones. If other servers cannot take all of them, returns an error,
// and the server stays what it was.
Result<RepairTotals> drain_server(Store& store, const std::string& server,
                                  const OnProgress& on_progress = {});

// Makes a server active again that was drained, or whose drain was interrupted.
Status cancel_drain(Store& store, const std::string& server);

}  // namespace trireme
