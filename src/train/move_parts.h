#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "checkpoint/rebuild_plan.h"
#include "comm/group.h"
#include "schema/workspace.h"

namespace trireme {

// Where and how a rank takes part in moves.
struct MoveParties {
  Group& ranks;              // used by this thread alone
  std::vector<int> rank_of;  // of each host of the moves
  std::string source_folder;
  std::string target_folder;
  std::span<std::byte> buffer;  // of kMoveBufferBytes
  double timeout_s = 60.0;      // a peer that sends no byte for so long has failed
  Progress* progress = nullptr;
  const std::atomic<bool>* is_abandoned = nullptr;  // if it becomes true, all ranks are aborted
};

// Makes the moves in their order. All ranks of rank_of call it with the same moves. A rank that
// cannot read or write a file takes part to the end, so that no other rank waits for it, and
// returns its first error. Throws CommError if a rank has failed.
//
// The thread that calls it may be another one than the thread that trains.
Status move_parts(std::span<const PartMove> moves, const MoveParties& parties);

}  // namespace trireme
