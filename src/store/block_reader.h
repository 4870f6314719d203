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
  // Starts to read the chunks of data from `first_chunk` to `last_chunk`, or only the bytes `part`
  // of each, which are whole pieces. Then the reader has such parts where it would have chunks.
  static std::shared_ptr<BlockReader> start(Store& store, const BlockRecord& block, int first_chunk,
                                            int last_chunk,
                                            std::shared_ptr<BlockBuffer> buffer = nullptr,
                                            ChunkRange part = {});
  // Starts to read all chunks, as a scrub needs them.
  static std::shared_ptr<BlockReader> start_all(Store& store, const BlockRecord& block,
                                                std::shared_ptr<BlockBuffer> buffer);
  // Starts to read what is needed to write the chunks `wanted` once more: these chunks if their
  // servers can be used, or else any k chunks.
  static std::shared_ptr<BlockReader> start_to_move(Store& store, const BlockRecord& block,
                                                    const std::vector<int>& wanted,
                                                    std::shared_ptr<BlockBuffer> buffer);

  // Waits for the wanted chunks. The result begins with chunk 0 and is valid as long as this
  // reader. If more chunks are lost than the code bears, the error names them.
  Result<std::span<std::byte>> finish();
  // Waits until all chunks that were begun have ended.
  void wait_for_all();

  // After finish() or finish_move(): the chunks that were found missing or damaged.
  std::vector<Move> losses();
  bool was_decoded() const { return was_decoded_; }
  const BlockRecord& block() const { return block_; }
  // After start_to_move(): reads more chunks if those that were begun are not enough, and returns
  // all chunks of the block, of which the wanted ones have their bytes. They are valid as long as
  // this reader. If more chunks are lost than the code bears, the error names them.
  Result<std::vector<Block>> finish_move();
  const std::vector<int>& to_move() const { return to_move_; }
  // After wait_for_all().
  ChunkRead outcome(int chunk);

 private:
  enum class Progress { NotBegun, Begun, Ended };
  struct Chunk {
    Progress progress = Progress::NotBegun;
    ChunkRead outcome = {};
  };

  BlockReader(Store& store, const BlockRecord& block, ChunkRange part)
      : store_(store), block_(block), part_(part) {}
  static std::shared_ptr<BlockReader> make(Store& store, const BlockRecord& block,
                                           std::shared_ptr<BlockBuffer> buffer,
                                           ChunkRange part = {});
  static void begin_chunk(const std::shared_ptr<BlockReader>& reader, int chunk);
  void read_chunk(int chunk);
  static bool is_intact(const Chunk& chunk);
  std::vector<bool> intact_chunks() const;
  int num_intact() const;
  bool all_wanted_are_intact() const;
  bool one_wanted_failed() const;
  bool all_begun_have_ended() const;
  bool has_server(int chunk) const;
  bool is_part() const { return part_.bytes != block_.chunk_bytes; }
  void begin_all();
  std::vector<Block> blocks_of(BlockBuffer& buffer) const;
  // Decodes the chunks `wanted` that are not intact. Nobody else may write to their places.
  Status decode(std::span<Block> blocks, std::span<const int> wanted,
                const std::vector<bool>& intact);
  Error too_few_chunks();

  Store& store_;
  const BlockRecord block_;
  const ChunkRange part_;  // the bytes of each chunk that are read
  std::weak_ptr<BlockReader> self_;
  int first_chunk_ = 0;
  int last_chunk_ = 0;
  std::shared_ptr<BlockBuffer> buffer_;   // a late read writes to it
  std::shared_ptr<BlockBuffer> decoded_;  // the block, if a late read may still write to buffer_
  bool was_decoded_ = false;
  std::vector<int> to_move_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable has_news_;
  std::vector<Chunk> chunks_;
};

}  // namespace trireme
