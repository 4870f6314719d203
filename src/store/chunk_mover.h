#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "store/block_reader.h"
#include "store/buffer_pool.h"
#include "store/store.h"

namespace trireme {

struct RepairTotals {
  int64_t num_repaired = 0;       // chunks
  int64_t bytes = 0;              // of these
  int64_t num_waiting = 0;        // chunks for which there is no server
  std::vector<std::string> lost;  // blocks that cannot be recovered now, with the reasons
};

// Writes chunks of blocks to servers that do not hold a chunk of their block. While some blocks are
// read, others are decoded and written. Up to most_moving_bytes() of blocks are in memory at a
// time, but at least 4 and at most 32 blocks.
class ChunkMover {
 public:
  ChunkMover(Store& store, const Overview& overview);

  // Begins to move the chunks `wanted` of a block, and waits if too many blocks are under way.
  // Reads nothing if no server can take one of them.
  void add(const BlockRecord& block, const std::vector<int>& wanted);
  // Waits until all chunks are on disks, and tells the metadata their places.
  Status commit();
  // Does so after a visit of blocks, also if the visit has failed, and returns the first error.
  Status commit_after(const Status& visit);
  // Of the chunks that were moved or are being moved.
  int64_t begun_bytes() const { return begun_bytes_; }
  // After commit(): the chunks that were found missing or damaged since the last call.
  std::vector<Move> take_losses() { return std::exchange(losses_, {}); }
  RepairTotals& totals() { return totals_; }

 private:
  struct Writing;  // the chunks of one block on their way to disks

  void decode_oldest();
  void finish_oldest();
  static void write_chunk(Store& store, Writing& writing, int chunk);

  Store& store_;
  Overview overview_;
  size_t most_reading_ = 0;  // blocks
  size_t most_writing_ = 0;
  BufferPool pool_;
  std::deque<std::shared_ptr<BlockReader>> reading_;
  std::deque<std::shared_ptr<Writing>> writing_;  // shared with the threads that write
  std::vector<Move> moves_;
  std::vector<Move> losses_;
  int64_t begun_bytes_ = 0;
  RepairTotals totals_;
};

}  // namespace trireme
