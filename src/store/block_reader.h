#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "store/block_writer.h"
#include "store/buffer_pool.h"
#include "store/store.h"

namespace trireme {

// Reads one block from the disks. Only the chunks of data that are wanted are read, unless some of
// them are lost or slow; then the block is decoded from any k chunks. No wait has a deadline: a
// disk whose calls never return stops the reader.
class BlockReader {
 public:
  // Starts to read the chunks of data from `first_chunk` to `last_chunk`.
  static std::shared_ptr<BlockReader> start(Store& store, const BlockRecord& block, int first_chunk,
                                            int last_chunk,
                                            std::shared_ptr<BlockBuffer> buffer = nullptr);
  // Starts to read all chunks, as repair and scrub need them.
  static std::shared_ptr<BlockReader> start_all(Store& store, const BlockRecord& block);

  // Waits for the wanted chunks. The result begins with chunk 0 and is valid as long as this
  // reader. If more chunks are lost than the code bears, the error names them.
  Result<std::span<std::byte>> finish();
  // Waits until all chunks that were begun have ended.
  void wait_for_all();

  // After finish(): the chunks that were found missing or damaged.
  std::vector<Move> losses();
  bool was_decoded() const { return decoded_ != nullptr; }
  const BlockRecord& block() const { return block_; }
  // After wait_for_all(): recovers the block, and returns all its chunks.
  Result<std::vector<Block>> recover();
  ChunkRead outcome(int chunk);

 private:
  enum class Progress { NotBegun, Begun, Ended };
  struct Chunk {
    Progress progress = Progress::NotBegun;
    ChunkRead outcome = {};
  };

  BlockReader(Store& store, const BlockRecord& block) : store_(store), block_(block) {}
  static std::shared_ptr<BlockReader> make(Store& store, const BlockRecord& block,
                                           std::shared_ptr<BlockBuffer> buffer);
  static void begin_chunk(const std::shared_ptr<BlockReader>& reader, int chunk);
  void read_chunk(int chunk);
  int num_intact() const;
  bool all_wanted_are_intact() const;
  bool one_wanted_failed() const;
  bool all_begun_have_ended() const;

  Store& store_;
  const BlockRecord block_;
  std::weak_ptr<BlockReader> self_;
  int first_chunk_ = 0;
  int last_chunk_ = 0;
  std::shared_ptr<BlockBuffer> buffer_;   // a late read writes to it
  std::shared_ptr<BlockBuffer> decoded_;  // the block, if it was decoded
  std::mutex mutex_;                      // guards everything below
  std::condition_variable has_news_;
  std::vector<Chunk> chunks_;
};

}  // namespace trireme
