#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "store/buffer_pool.h"
#include "store/store.h"

namespace trireme {

// Cuts a buffer into the chunks of a code.
std::vector<Block> chunks_of(BlockBuffer& buffer, const StoreCode& code, uint32_t chunk_bytes);

// Writes one block to the disks.
class BlockWriter {
 public:
  // Pads the data with zeros, encodes them, and starts to write the chunks to the first servers of
  // `servers`; if one fails, its chunk goes to the next one that is left. Every sixteenth block is
  // decoded again from its last chunks before anything is written.
  static Result<std::shared_ptr<BlockWriter>> start(Store& store, uint64_t id,
                                                    std::shared_ptr<BlockBuffer> buffer,
                                                    size_t data_bytes, std::vector<int> servers);

  // Waits until enough chunks are on disks, without a deadline, and then straggler_s() at most for
  // the others. In the record, chunks that are missing then have no server. Returns an error if
  // fewer than k + 1 were written.
  Result<BlockRecord> finish();
  uint64_t id() const { return record_.id; }

 private:
  BlockWriter(Store& store, std::shared_ptr<BlockBuffer> buffer)
      : store_(store), buffer_(std::move(buffer)) {}
  void write_chunk(int chunk);
  int next_server();

  Store& store_;
  const std::shared_ptr<BlockBuffer> buffer_;  // shared with the caller, who uses it again
  std::vector<Block> chunks_;
  std::vector<int> servers_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable has_news_;
  BlockRecord record_;
  size_t next_server_ = 0;
  int num_open_ = 0;
  int num_written_ = 0;
  std::string failures_;
};

}  // namespace trireme
