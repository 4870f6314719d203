#include "store/block_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace trireme {

std::shared_ptr<BlockReader> BlockReader::make(Store& store, const BlockRecord& block,
                                               std::shared_ptr<BlockBuffer> buffer,
                                               ChunkRange part) {
  if (part.bytes == 0) part = {0, block.chunk_bytes};
  std::shared_ptr<BlockReader> reader(new BlockReader(store, block, part));
  const size_t bytes = block.servers.size() * part.bytes;
  const bool fits = buffer != nullptr && buffer->bytes().size() >= bytes;
  reader->buffer_ = fits ? std::move(buffer) : std::make_shared<BlockBuffer>(bytes);
  reader->chunks_.resize(block.servers.size());
  reader->self_ = reader;
  return reader;
}

std::shared_ptr<BlockReader> BlockReader::start(Store& store, const BlockRecord& block,
                                                int first_chunk, int last_chunk,
                                                std::shared_ptr<BlockBuffer> buffer,
                                                ChunkRange part) {
  auto reader = make(store, block, std::move(buffer), part);
  store.read_times().begin_block();
  reader->first_chunk_ = first_chunk;
  reader->last_chunk_ = last_chunk;
  for (int chunk = first_chunk; chunk <= last_chunk; ++chunk) begin_chunk(reader, chunk);
  return reader;
}

std::shared_ptr<BlockReader> BlockReader::start_all(Store& store, const BlockRecord& block,
                                                    std::shared_ptr<BlockBuffer> buffer) {
  auto reader = make(store, block, std::move(buffer));
  reader->begin_all();
  return reader;
}

std::shared_ptr<BlockReader> BlockReader::start_to_move(Store& store, const BlockRecord& block,
                                                        const std::vector<int>& wanted,
                                                        std::shared_ptr<BlockBuffer> buffer) {
  auto reader = make(store, block, std::move(buffer));
  reader->to_move_ = wanted;
  const auto has_server = [&](int chunk) { return reader->has_server(chunk); };
  std::vector<int> order;
  std::ranges::copy_if(wanted, std::back_inserter(order), has_server);
  size_t enough = wanted.size();
  if (order.size() < wanted.size()) {
    enough = size_t(store.code().num_data);
    for (int chunk = 0; chunk < int(block.servers.size()); ++chunk) {
      if (has_server(chunk) && std::ranges::count(wanted, chunk) == 0) order.push_back(chunk);
    }
  }
  order.resize(std::min(order.size(), enough));
  for (const int chunk : order) begin_chunk(reader, chunk);
  return reader;
}

bool BlockReader::has_server(int chunk) const {
  const int server = block_.servers[size_t(chunk)];
  return server != kNoServer && store_.target(server) != nullptr;
}

void BlockReader::begin_all() {
  const std::shared_ptr<BlockReader> self = self_.lock();
  for (int chunk = 0; chunk < int(chunks_.size()); ++chunk) begin_chunk(self, chunk);
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
    const auto to = buffer_->bytes().subspan(size_t(chunk) * part_.bytes, part_.bytes);
    const uint64_t checksum = block_.checksums[size_t(chunk)];
    outcome = is_part() ? target->read_part({block_.id, chunk},
                                            {block_.chunk_bytes, checksum, part_.offset}, to)
                        : target->read({block_.id, chunk}, to, checksum);
  }
  if (outcome.state == ChunkState::Intact) store_.read_times().add(monotonic_ns() - begin_ns);
  const std::lock_guard lock(mutex_);
  chunks_[size_t(chunk)] = {Progress::Ended, outcome};
  has_news_.notify_all();
}

bool BlockReader::is_intact(const Chunk& chunk) {
  return chunk.progress == Progress::Ended && chunk.outcome.state == ChunkState::Intact;
}

int BlockReader::num_intact() const { return int(std::ranges::count_if(chunks_, is_intact)); }

bool BlockReader::all_wanted_are_intact() const {
  return std::all_of(chunks_.begin() + first_chunk_, chunks_.begin() + last_chunk_ + 1, is_intact);
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
  const bool is_slow = !has_news_.wait_for(lock, patience, is_decided);
  const bool is_hedged = is_slow && store_.read_times().may_hedge();
  if (is_slow && !is_hedged) has_news_.wait(lock, is_decided);
  if (all_wanted_are_intact()) return buffer_->bytes();
  lock.unlock();
  begin_all();
  lock.lock();
  has_news_.wait(lock, [&] {
    return all_wanted_are_intact() || num_intact() >= store_.code().num_data ||
           all_begun_have_ended();
  });
  if (all_wanted_are_intact()) {
    if (is_hedged) store_.read_times().give_back_hedge();
    return buffer_->bytes();
  }
  std::vector<int> wanted;
  bool is_one_late = false;
  for (int chunk = first_chunk_; chunk <= last_chunk_; ++chunk) {
    wanted.push_back(chunk);
    is_one_late = is_one_late || chunks_[size_t(chunk)].progress != Progress::Ended;
  }
  const std::shared_ptr<BlockBuffer> to =
      is_one_late ? std::make_shared<BlockBuffer>(chunks_.size() * part_.bytes) : buffer_;
  std::vector<Block> blocks = blocks_of(*to);
  for (size_t chunk = 0; is_one_late && chunk < chunks_.size(); ++chunk) {
    if (!is_intact(chunks_[chunk])) continue;
    const auto from = buffer_->bytes().subspan(chunk * part_.bytes, part_.bytes);
    std::ranges::copy(from, blocks[chunk].bytes.begin());
  }
  const std::vector<bool> is_copied = intact_chunks();
  lock.unlock();
  TRIREME_TRY_DONE(decode(blocks, wanted, is_copied));
  decoded_ = to;
  return to->bytes();
}

Result<std::vector<Block>> BlockReader::finish_move() {
  wait_for_all();
  const auto is_enough = [&] {
    const std::lock_guard lock(mutex_);
    return num_intact() >= store_.code().num_data || std::ranges::all_of(to_move_, [&](int chunk) {
             return is_intact(chunks_[size_t(chunk)]);
           });
  };
  if (!is_enough()) {
    begin_all();
    wait_for_all();
  }
  std::vector<Block> blocks = blocks_of(*buffer_);
  const auto is_intact = [&] {
    const std::lock_guard lock(mutex_);
    return intact_chunks();
  };
  TRIREME_TRY_DONE(decode(blocks, to_move_, is_intact()));
  return blocks;
}

std::vector<Block> BlockReader::blocks_of(BlockBuffer& buffer) const {
  std::vector<Block> blocks = chunks_of(buffer, store_.code(), part_.bytes);
  for (size_t chunk = 0; chunk < blocks.size(); ++chunk) {
    blocks[chunk].checksum = block_.checksums[chunk];
  }
  return blocks;
}

std::vector<bool> BlockReader::intact_chunks() const {
  std::vector<bool> intact;
  for (const Chunk& chunk : chunks_) intact.push_back(is_intact(chunk));
  return intact;
}

Status BlockReader::decode(std::span<Block> blocks, std::span<const int> wanted,
                           const std::vector<bool>& intact) {
  const StoreCode& code = store_.code();
  std::vector<int> given, lost;
  for (int chunk = 0; chunk < int(blocks.size()); ++chunk) {
    if (intact[size_t(chunk)] && int(given.size()) < code.num_data) given.push_back(chunk);
  }
  for (const int chunk : wanted) {
    if (!intact[size_t(chunk)]) lost.push_back(chunk);
  }
  if (lost.empty()) return Done{};
  if (int(given.size()) < code.num_data) return too_few_chunks();
  if (is_part()) {
    rebuild_parts(code, blocks, given, lost);
  } else {
    TRIREME_TRY_DONE(rebuild_chunks(code, blocks, given, lost));
  }
  was_decoded_ = true;
  return Done{};
}

Error BlockReader::too_few_chunks() {
  std::string reasons;
  bool may_come_back = false;
  const std::lock_guard lock(mutex_);
  for (int chunk = 0; chunk < int(chunks_.size()); ++chunk) {
    const Chunk& read = chunks_[size_t(chunk)];
    if (read.progress != Progress::Ended || is_intact(read)) continue;
    const int server = block_.servers[size_t(chunk)];
    reasons += server == kNoServer ? fmt::format("; chunk {} was lost before", chunk)
                                   : fmt::format("; chunk {} of server {}: {}", chunk,
                                                 store_.describe(server), read.outcome.why);
    may_come_back |= read.outcome.state == ChunkState::Unreadable && server != kNoServer;
  }
  return damaged(fmt::format(
      "{} of {} chunks of block {:016x} are lost, and the code {} bears the loss of {}{}; {}",
      int(chunks_.size()) - num_intact(), chunks_.size(), block_.id, text_of(store_.code()),
      store_.code().num_parity, reasons,
      may_come_back ? "bring one of these disks back" : "put the file again from another copy"));
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
