#include "store/block_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace trireme {

std::shared_ptr<BlockReader> BlockReader::make(Store& store, const BlockRecord& block,
                                               std::shared_ptr<BlockBuffer> buffer) {
  std::shared_ptr<BlockReader> reader(new BlockReader(store, block));
  const size_t bytes = block.servers.size() * block.chunk_bytes;
  const bool fits = buffer != nullptr && buffer->bytes().size() >= bytes;
  reader->buffer_ = fits ? std::move(buffer) : std::make_shared<BlockBuffer>(bytes);
  reader->chunks_.resize(block.servers.size());
  reader->self_ = reader;
  return reader;
}

std::shared_ptr<BlockReader> BlockReader::start(Store& store, const BlockRecord& block,
                                                int first_chunk, int last_chunk,
                                                std::shared_ptr<BlockBuffer> buffer) {
  auto reader = make(store, block, std::move(buffer));
  store.read_times().begin_block();
  reader->first_chunk_ = first_chunk;
  reader->last_chunk_ = last_chunk;
  for (int chunk = first_chunk; chunk <= last_chunk; ++chunk) begin_chunk(reader, chunk);
  return reader;
}

std::shared_ptr<BlockReader> BlockReader::start_all(Store& store, const BlockRecord& block) {
  auto reader = make(store, block, nullptr);
  for (int chunk = 0; chunk < int(block.servers.size()); ++chunk) begin_chunk(reader, chunk);
  return reader;
}

void BlockReader::begin_chunk(const std::shared_ptr<BlockReader>& reader, int chunk) {
  {
    const std::lock_guard lock(reader->mutex_);
    if (reader->chunks_[size_t(chunk)].progress != Progress::NotBegun) return;
    reader->chunks_[size_t(chunk)].progress = Progress::Begun;
  }
  reader->store_.queue().add([reader, chunk] { reader->read_chunk(chunk); });
}

void BlockReader::read_chunk(int chunk) {
  const int server = block_.servers[size_t(chunk)];
  ChunkTarget* const target = server == kNoServer ? nullptr : store_.target(server);
  const int64_t begin_ns = monotonic_ns();
  ChunkRead outcome{ChunkState::Unreadable, ""};
  if (target == nullptr) {
    outcome.why = store_.describe(server);
  } else {
    const auto to =
        buffer_->bytes().subspan(size_t(chunk) * block_.chunk_bytes, block_.chunk_bytes);
    outcome = target->read({block_.id, chunk}, to, block_.checksums[size_t(chunk)]);
  }
  if (outcome.state == ChunkState::Intact) store_.read_times().add(monotonic_ns() - begin_ns);
  const std::lock_guard lock(mutex_);
  chunks_[size_t(chunk)] = {Progress::Ended, outcome};
  has_news_.notify_all();
}

int BlockReader::num_intact() const {
  return int(std::ranges::count_if(chunks_, [](const Chunk& chunk) {
    return chunk.progress == Progress::Ended && chunk.outcome.state == ChunkState::Intact;
  }));
}

bool BlockReader::all_wanted_are_intact() const {
  return std::all_of(
      chunks_.begin() + first_chunk_, chunks_.begin() + last_chunk_ + 1, [](const Chunk& chunk) {
        return chunk.progress == Progress::Ended && chunk.outcome.state == ChunkState::Intact;
      });
}

bool BlockReader::one_wanted_failed() const {
  return std::any_of(
      chunks_.begin() + first_chunk_, chunks_.begin() + last_chunk_ + 1, [](const Chunk& chunk) {
        return chunk.progress == Progress::Ended && chunk.outcome.state != ChunkState::Intact;
      });
}

bool BlockReader::all_begun_have_ended() const {
  return std::ranges::count(chunks_, Progress::Begun, &Chunk::progress) == 0;
}

void BlockReader::wait_for_all() {
  std::unique_lock lock(mutex_);
  has_news_.wait(lock, [&] { return all_begun_have_ended(); });
}

Result<std::span<std::byte>> BlockReader::finish() {
  std::unique_lock lock(mutex_);
  const auto is_decided = [&] { return all_wanted_are_intact() || one_wanted_failed(); };
  const std::chrono::nanoseconds patience(store_.read_times().patience_ns());
  if (!has_news_.wait_for(lock, patience, is_decided) && !store_.read_times().may_hedge()) {
    has_news_.wait(lock, is_decided);
  }
  if (all_wanted_are_intact()) return buffer_->bytes();
  lock.unlock();
  const std::shared_ptr<BlockReader> self = self_.lock();
  for (int chunk = 0; chunk < int(chunks_.size()); ++chunk) begin_chunk(self, chunk);
  lock.lock();
  has_news_.wait(lock, [&] {
    return all_wanted_are_intact() || num_intact() >= store_.code().num_data ||
           all_begun_have_ended();
  });
  if (all_wanted_are_intact()) return buffer_->bytes();
  lock.unlock();
  TRIREME_TRY(recovered, recover());
  static_cast<void>(recovered);
  return decoded_->bytes();
}

Result<std::vector<Block>> BlockReader::recover() {
  const StoreCode& code = store_.code();
  const auto decoded = std::make_shared<BlockBuffer>(chunks_.size() * block_.chunk_bytes);
  std::vector<Block> blocks = chunks_of(*decoded, code, block_.chunk_bytes);
  std::vector<int> lost;
  std::string reasons;
  {
    const std::lock_guard lock(mutex_);
    for (int chunk = 0; chunk < int(chunks_.size()); ++chunk) {
      Block& block = blocks[size_t(chunk)];
      block.checksum = block_.checksums[size_t(chunk)];
      const Chunk& read = chunks_[size_t(chunk)];
      if (read.progress == Progress::Ended && read.outcome.state == ChunkState::Intact) {
        const auto from =
            buffer_->bytes().subspan(size_t(chunk) * block_.chunk_bytes, block_.chunk_bytes);
        std::ranges::copy(from, block.bytes.begin());
        continue;
      }
      lost.push_back(chunk);
      if (read.progress != Progress::Ended) continue;
      reasons += fmt::format("; chunk {} of server {}: {}", chunk,
                             store_.describe(block_.servers[size_t(chunk)]), read.outcome.why);
    }
  }
  if (int(lost.size()) > code.num_parity) {
    return damaged(fmt::format(
        "{} of {} chunks of block {} are lost, and the code {} bears the loss of {}{}; bring one "
        "of these disks back",
        lost.size(), chunks_.size(), block_.id, text_of(code), code.num_parity, reasons));
  }
  TRIREME_TRY_DONE(recover_chunks(code, blocks, lost));
  decoded_ = decoded;
  return blocks;
}

ChunkRead BlockReader::outcome(int chunk) {
  const std::lock_guard lock(mutex_);
  return chunks_[size_t(chunk)].outcome;
}

std::vector<Move> BlockReader::losses() {
  const std::lock_guard lock(mutex_);
  std::vector<Move> moves;
  for (int chunk = 0; chunk < int(chunks_.size()); ++chunk) {
    const int server = block_.servers[size_t(chunk)];
    const Chunk& read = chunks_[size_t(chunk)];
    if (server == kNoServer || read.progress != Progress::Ended) continue;
    if (read.outcome.is_lost()) moves.push_back({block_.id, chunk, server, kNoServer});
  }
  return moves;
}

}  // namespace trireme
