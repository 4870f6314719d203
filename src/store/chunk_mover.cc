#include "store/chunk_mover.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "store/placement.h"

namespace trireme {
namespace {

constexpr int64_t kLeastMovingBlocks = 4;
constexpr int64_t kMostMovingBlocks = 32;

}  // namespace

struct ChunkMover::Writing {
  std::shared_ptr<BlockReader> reader;  // owns the bytes of the chunks
  std::vector<Block> chunks;
  std::vector<int> servers;  // in the order in which to try them

  std::mutex mutex;  // guards everything below
  std::condition_variable has_ended;
  size_t next_server = 0;
  size_t num_open = 0;
  std::vector<Move> moves;

  int take_server() {
    const std::lock_guard lock(mutex);
    return next_server < servers.size() ? servers[next_server++] : kNoServer;
  }
};

ChunkMover::ChunkMover(Store& store, const Overview& overview)
    : store_(store), overview_(overview) {
  const int64_t block_bytes = int64_t{store.code().num_chunks()} * overview.facts.most_chunk_bytes;
  const auto most_blocks = size_t(
      std::clamp(store.most_moving_bytes() / block_bytes, kLeastMovingBlocks, kMostMovingBlocks));
  most_reading_ = most_blocks / 2;
  most_writing_ = most_blocks - most_reading_;
}

void ChunkMover::add(const BlockRecord& block, const std::vector<int>& wanted) {
  const std::vector<int> places =
      servers_for_block(overview_, store_.usable(), block.id, block.chunk_bytes, block.servers);
  if (places.empty()) {  // reading the block would be in vain
    totals_.num_waiting += int64_t(wanted.size());
    return;
  }
  begun_bytes_ += int64_t(wanted.size()) * block.chunk_bytes;
  while (reading_.size() >= most_reading_) decode_oldest();
  reading_.push_back(BlockReader::start_to_move(
      store_, block, wanted, pool_.take(block.servers.size() * block.chunk_bytes)));
}

void ChunkMover::decode_oldest() {
  const std::shared_ptr<BlockReader> reader = std::move(reading_.front());
  reading_.pop_front();
  Result<std::vector<Block>> chunks = reader->finish_move();
  const std::vector<Move> losses = reader->losses();
  losses_.insert(losses_.end(), losses.begin(), losses.end());
  if (!chunks.ok()) {
    totals_.lost.push_back(chunks.error().message);
    return;
  }
  while (writing_.size() >= most_writing_) finish_oldest();
  const BlockRecord& block = reader->block();
  const std::vector<int>& wanted = reader->to_move();
  auto writing = std::make_shared<Writing>();
  writing->reader = reader;
  writing->chunks = std::move(*chunks);
  writing->servers =
      servers_for_block(overview_, store_.usable(), block.id, block.chunk_bytes, block.servers);
  writing->num_open = wanted.size();
  for (size_t place = 0; place < std::min(wanted.size(), writing->servers.size()); ++place) {
    overview_.bytes_of_server[size_t(writing->servers[place])] += block.chunk_bytes;
  }
  for (const int chunk : wanted) {
    store_.queue().add([&store = store_, writing, chunk] { write_chunk(store, *writing, chunk); });
  }
  writing_.push_back(std::move(writing));
}

void ChunkMover::write_chunk(Store& store, Writing& writing, int chunk) {
  const BlockRecord& block = writing.reader->block();
  const Block& bytes = writing.chunks[size_t(chunk)];
  int server = writing.take_server();
  while (server != kNoServer &&
         !store.target(server)->write({block.id, chunk}, bytes.bytes, bytes.checksum).ok()) {
    server = writing.take_server();
  }
  const std::lock_guard lock(writing.mutex);
  writing.moves.push_back({block.id, chunk, block.servers[size_t(chunk)], server});
  --writing.num_open;
  writing.has_ended.notify_all();
}

void ChunkMover::finish_oldest() {
  const std::shared_ptr<Writing> writing = std::move(writing_.front());
  writing_.pop_front();
  std::unique_lock lock(writing->mutex);
  writing->has_ended.wait(lock, [&] { return writing->num_open == 0; });
  for (const Move& move : writing->moves) {
    if (move.to == kNoServer) {
      ++totals_.num_waiting;
      continue;
    }
    moves_.push_back(move);
    ++totals_.num_repaired;
    totals_.bytes += writing->reader->block().chunk_bytes;
  }
}

Status ChunkMover::commit() {
  while (!reading_.empty()) decode_oldest();
  while (!writing_.empty()) finish_oldest();
  if (moves_.empty()) return Done{};
  MetadataCommand place{.kind = CommandKind::Place};
  place.view = overview_.view;
  place.moves = std::exchange(moves_, {});
  return store_.change(std::move(place));
}

Status ChunkMover::commit_after(const Status& visit) {
  const Status committed = commit();
  return visit.ok() ? committed : visit;
}

}  // namespace trireme
