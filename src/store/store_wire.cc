#include "store/store_wire.h"

#include <algorithm>

#include "raft/packed_bytes.h"
#include "store/metadata_records.h"

namespace trireme {
namespace {

constexpr size_t kMostWireText = size_t{64} << 20;
constexpr size_t kMostAddress = 300;
constexpr size_t kMostLogServers = 16;

void pack_chunk(PackedWriter& writer, ChunkName chunk) {
  writer.number(chunk.block).number(chunk.chunk);
}
ChunkName unpack_chunk(PackedReader& reader) {
  ChunkName chunk;
  chunk.block = reader.number<uint64_t>();
  chunk.chunk = reader.number<int32_t>();
  return chunk;
}

void pack_log_servers(PackedWriter& writer, const std::vector<LogServer>& servers) {
  writer.number(uint32_t(servers.size()));
  for (const LogServer& server : servers) writer.text(server.address).text(server.log_address);
}
std::vector<LogServer> unpack_log_servers(PackedReader& reader) {
  std::vector<LogServer> servers(reader.count(8));
  for (LogServer& server : servers) {
    server.address = reader.text(kMostAddress);
    server.log_address = reader.text(kMostAddress);
  }
  return servers;
}

}  // namespace

std::string secret_of_store(const std::string& secret) { return secret + "/store"; }

bool keeps_metadata(const ServerDescription& server) {
  return std::ranges::count(server.log_servers, server.address, &LogServer::address) > 0;
}

std::vector<LogServer> log_servers_without(std::vector<LogServer> servers,
                                           const std::string& address) {
  std::erase_if(servers, [&](const LogServer& server) { return server.address == address; });
  return servers;
}

std::string pack_request(const StoreRequest& request) {
  PackedWriter writer;
  writer.number(uint8_t(request.op)).number(request.deadline_ms).number(request.store);
  writer.number(request.incarnation).number(request.epoch);
  writer.number(uint8_t(request.passes_on ? 1 : 0));
  pack_chunk(writer, request.chunk);
  writer.number(request.chunk_bytes).number(request.checksum).text(request.text);
  return writer.take();
}

Result<StoreRequest> unpack_request(std::string_view bytes) {
  PackedReader reader(bytes);
  StoreRequest request;
  const auto op = reader.number<uint8_t>();
  if (op > uint8_t(kLastStoreOp)) return damaged("a request to a server has an unknown kind");
  request.op = StoreOp(op);
  request.deadline_ms = reader.number<uint32_t>();
  request.store = reader.number<uint64_t>();
  request.incarnation = reader.number<uint64_t>();
  request.epoch = reader.number<uint64_t>();
  request.passes_on = reader.number<uint8_t>() != 0;
  request.chunk = unpack_chunk(reader);
  request.chunk_bytes = reader.number<uint32_t>();
  request.checksum = reader.number<uint64_t>();
  request.text = reader.text(kMostWireText);
  if (!reader.is_done() || request.chunk_bytes > kMostChunkBytes) {
    return damaged("a request to a server is damaged");
  }
  return request;
}

std::string pack_reply(const StoreReply& reply) {
  PackedWriter writer;
  writer.number(uint8_t(reply.error ? 1 + int(reply.error->kind) : 0));
  if (reply.error) {
    writer.text(reply.error->message);
    return writer.take();
  }
  writer.number(uint8_t(reply.state)).number(uint8_t(reply.is_leader ? 1 : 0));
  writer.text(reply.leader).text(reply.text).number(uint32_t(reply.chunks.size()));
  for (const ChunkName& chunk : reply.chunks) pack_chunk(writer, chunk);
  return writer.take();
}

Result<StoreReply> unpack_reply(std::string_view bytes) {
  PackedReader reader(bytes);
  StoreReply reply;
  const auto error = reader.number<uint8_t>();
  if (error > 0) {
    const std::string message = reader.text(kMostWireText);
    if (!reader.is_done() || error - 1 > int(ErrorKind::Runtime)) {
      return damaged("a reply of a server is damaged");
    }
    reply.error = Error{ErrorKind(error - 1), message};
    return reply;
  }
  const auto state = reader.number<uint8_t>();
  reply.state = ChunkState(state);
  reply.is_leader = reader.number<uint8_t>() != 0;
  reply.leader = reader.text(kMostAddress);
  reply.text = reader.text(kMostWireText);
  reply.chunks.resize(reader.count(12));
  for (ChunkName& chunk : reply.chunks) chunk = unpack_chunk(reader);
  if (!reader.is_done() || state > uint8_t(ChunkState::Unreadable)) {
    return damaged("a reply of a server is damaged");
  }
  return reply;
}

std::string pack_description(const ServerDescription& description) {
  PackedWriter writer;
  const FolderIdentity& identity = description.identity;
  writer.number(identity.store).text(identity.store_name).text(identity.server);
  writer.number(identity.incarnation).text(description.address).text(description.log_address);
  writer.number(description.free_bytes);
  pack_log_servers(writer, description.log_servers);
  return writer.take();
}

Result<ServerDescription> unpack_description(std::string_view bytes) {
  PackedReader reader(bytes);
  ServerDescription description;
  FolderIdentity& identity = description.identity;
  identity.store = reader.number<uint64_t>();
  identity.store_name = reader.text(kMostAddress);
  identity.server = reader.text(kMostAddress);
  identity.incarnation = reader.number<uint64_t>();
  description.address = reader.text(kMostAddress);
  description.log_address = reader.text(kMostAddress);
  description.free_bytes = reader.number<int64_t>();
  description.log_servers = unpack_log_servers(reader);
  if (!reader.is_done() || description.log_servers.size() > kMostLogServers) {
    return damaged("the description of a server is damaged");
  }
  return description;
}

std::string pack_range(ChunkRange range) {
  return PackedWriter().number(range.offset).number(range.bytes).take();
}

Result<ChunkRange> unpack_range(std::string_view bytes, uint32_t chunk_bytes) {
  PackedReader reader(bytes);
  ChunkRange range;
  range.offset = reader.number<uint32_t>();
  range.bytes = reader.number<uint32_t>();
  const bool fits = range.offset < chunk_bytes && range.bytes <= chunk_bytes - range.offset;
  const bool is_whole =
      range.offset % kChunkPieceBytes == 0 &&
      (range.bytes % kChunkPieceBytes == 0 || range.bytes == chunk_bytes - range.offset);
  if (!reader.is_done() || !fits || !is_whole) {
    return damaged("a request to a server names a part of a chunk that does not exist");
  }
  return range;
}

std::string pack_log_start(const LogStart& start) {
  PackedWriter writer;
  writer.number(int32_t(start.id));
  pack_log_servers(writer, start.servers);
  return writer.take();
}

Result<LogStart> unpack_log_start(std::string_view bytes) {
  PackedReader reader(bytes);
  LogStart start;
  start.id = reader.number<int32_t>();
  start.servers = unpack_log_servers(reader);
  if (!reader.is_done() || start.id < 0 || start.servers.size() > kMostLogServers) {
    return damaged("the servers of a log are damaged");
  }
  return start;
}

}  // namespace trireme
