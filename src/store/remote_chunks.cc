#include "store/remote_chunks.h"

#include "base/hash.h"

namespace trireme {
namespace {

// Deadlines of a call.
constexpr double kChunkS = 10.0;
constexpr double kListS = 60.0;

}  // namespace

StoreRequest RemoteChunks::request(StoreOp op, ChunkName name) const {
  return {.op = op,
          .store = fence_.store,
          .incarnation = fence_.incarnation,
          .epoch = fence_.epoch,
          .chunk = name};
}

Status RemoteChunks::write(ChunkName name, std::span<const std::byte> bytes, uint64_t checksum) {
  StoreRequest write = request(StoreOp::Write, name);
  write.checksum = checksum;
  std::span<std::byte> nothing;
  const Result<StoreReply> reply = peer_->ask(std::move(write), bytes, nothing, kChunkS);
  if (!reply.ok()) return reply.error();
  return Done{};
}

ChunkRead RemoteChunks::read(ChunkName name, std::span<std::byte> bytes, uint64_t checksum) {
  StoreRequest read = request(StoreOp::Read, name);
  read.chunk_bytes = uint32_t(bytes.size());
  read.checksum = checksum;
  std::span<std::byte> to = bytes;
  const Result<StoreReply> reply = peer_->ask(std::move(read), {}, to, kChunkS);
  if (!reply.ok()) return {ChunkState::Unreadable, reply.error().message};
  if (reply->state != ChunkState::Intact) return {reply->state, reply->text};
  // The server has compared the checksum, so what is wrong here was changed on the way.
  if (to.size() != bytes.size() || hash64(bytes) != checksum) {
    return {ChunkState::Unreadable, peer_->address() + ": a chunk was changed on its way"};
  }
  return {};
}

ChunkRead RemoteChunks::read_part(ChunkName name, const ChunkPart& part,
                                  std::span<std::byte> bytes) {
  StoreRequest read = request(StoreOp::ReadPart, name);
  read.chunk_bytes = part.chunk_bytes;
  read.checksum = part.checksum;
  read.text = pack_range({part.offset, uint32_t(bytes.size())});
  std::span<std::byte> to = bytes;
  const Result<StoreReply> reply = peer_->ask(std::move(read), {}, to, kChunkS);
  if (!reply.ok()) return {ChunkState::Unreadable, reply.error().message};
  if (reply->state != ChunkState::Intact) return {reply->state, reply->text};
  if (to.size() != bytes.size() || reply->text != hex64(hash64(bytes))) {
    return {ChunkState::Unreadable, peer_->address() + ": a chunk was changed on its way"};
  }
  return {};
}

Status RemoteChunks::remove(ChunkName name) {
  const Result<StoreReply> reply = peer_->ask(request(StoreOp::Remove, name), kChunkS);
  if (!reply.ok()) return reply.error();
  return Done{};
}

Result<std::vector<ChunkName>> RemoteChunks::list() {
  std::vector<ChunkName> names;
  StoreRequest next = request(StoreOp::List, {0, -1});
  for (;;) {
    TRIREME_TRY(reply, peer_->ask(next, kListS));
    if (reply.chunks.empty()) return names;
    if (!names.empty() && reply.chunks.front() <= names.back()) {
      return damaged(peer_->address() + ": a list of chunks does not go on");
    }
    names.insert(names.end(), reply.chunks.begin(), reply.chunks.end());
    next.chunk = names.back();
  }
}

}  // namespace trireme
