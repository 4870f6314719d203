#include "store/metadata_records.h"

namespace trireme {
namespace {

constexpr size_t kMostText = 4096;

}  // namespace

std::string_view text_of(ServerState state) {
  constexpr std::string_view kTexts[] = {"active", "draining", "drained"};
  return kTexts[size_t(state)];
}

std::string_view text_of(UpkeepKind kind) {
  constexpr std::string_view kTexts[] = {"none", "scrub", "repair", "drain"};
  return kTexts[size_t(kind)];
}

void pack(PackedWriter& writer, const ServerRecord& server) {
  writer.text(server.name).text(server.address).text(server.domain);
  writer.number(server.capacity_bytes).number(uint8_t(server.state));
  writer.number(server.incarnation).number(server.replaced_at_view);
}

void unpack(PackedReader& reader, ServerRecord& server) {
  server.name = reader.text(kMostText);
  server.address = reader.text(kMostText);
  server.domain = reader.text(kMostText);
  server.capacity_bytes = reader.number<int64_t>();
  server.state = ServerState(std::min<uint8_t>(reader.number<uint8_t>(), 2));
  server.incarnation = reader.number<uint64_t>();
  server.replaced_at_view = reader.number<uint64_t>();
}

void pack(PackedWriter& writer, const BlockRecord& block) {
  writer.number(block.id).number(block.chunk_bytes).number(uint32_t(block.servers.size()));
  for (size_t chunk = 0; chunk < block.servers.size(); ++chunk) {
    writer.number(block.servers[chunk]).number(block.checksums[chunk]);
  }
}

void unpack(PackedReader& reader, BlockRecord& block) {
  block.id = reader.number<uint64_t>();
  block.chunk_bytes = reader.number<uint32_t>();
  block.servers.resize(reader.count(12));
  block.checksums.resize(block.servers.size());
  for (size_t chunk = 0; chunk < block.servers.size(); ++chunk) {
    block.servers[chunk] = reader.number<int32_t>();
    block.checksums[chunk] = reader.number<uint64_t>();
  }
}

void pack(PackedWriter& writer, const FileRecord& file) {
  writer.number(file.bytes).number(file.checksum).number(file.token);
  writer.number(uint32_t(file.extents.size()));
  for (const Extent& extent : file.extents) {
    writer.number(extent.block).number(extent.offset).number(extent.bytes);
  }
}

void unpack(PackedReader& reader, FileRecord& file) {
  file.bytes = reader.number<uint64_t>();
  file.checksum = reader.number<uint64_t>();
  file.token = reader.number<uint64_t>();
  file.extents.resize(reader.count(24));
  for (Extent& extent : file.extents) {
    extent.block = reader.number<uint64_t>();
    extent.offset = reader.number<uint64_t>();
    extent.bytes = reader.number<uint64_t>();
  }
}

void pack(PackedWriter& writer, const Garbage& garbage) {
  writer.number(garbage.server).number(garbage.block).number(garbage.chunk);
}

void unpack(PackedReader& reader, Garbage& garbage) {
  garbage.server = reader.number<int32_t>();
  garbage.block = reader.number<uint64_t>();
  garbage.chunk = reader.number<int32_t>();
}

void pack(PackedWriter& writer, const StoreFacts& facts) {
  writer.number(facts.id).text(facts.name);
  writer.number(facts.code.num_data).number(facts.code.num_parity).number(facts.most_chunk_bytes);
}

void unpack(PackedReader& reader, StoreFacts& facts) {
  facts.id = reader.number<uint64_t>();
  facts.name = reader.text(64);
  facts.code.num_data = reader.number<int>();
  facts.code.num_parity = reader.number<int>();
  facts.most_chunk_bytes = reader.number<uint32_t>();
}

void pack(PackedWriter& writer, const UpkeepProgress& progress) {
  writer.number(uint8_t(progress.kind)).number(progress.done).number(progress.total);
  writer.number(progress.bytes).number(progress.ms);
}

void unpack(PackedReader& reader, UpkeepProgress& progress) {
  progress.kind = UpkeepKind(std::min<uint8_t>(reader.number<uint8_t>(), 3));
  progress.done = reader.number<uint64_t>();
  progress.total = reader.number<uint64_t>();
  progress.bytes = reader.number<uint64_t>();
  progress.ms = reader.number<uint64_t>();
}

}  // namespace trireme
