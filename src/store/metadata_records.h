#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "raft/packed_bytes.h"
#include "store/store_code.h"

// What the metadata of a store hold, and how it is packed.
namespace trireme {

inline constexpr int64_t kMostChunkBytes = int64_t{8} << 20;
inline constexpr size_t kMostServers = 4096;
inline constexpr int32_t kNoServer = -1;

enum class ServerState : uint8_t {
  Active,
  Draining,  // gets no new chunks, and its chunks are moved
  Drained,   // holds nothing
};
std::string_view text_of(ServerState state);

// A server of chunks. Today it is a folder of this host, best on a disk of its own.
struct ServerRecord {
  std::string name;
  std::string address;         // the path of the folder
  std::string domain;          // servers of one failure domain may be lost together
  int64_t capacity_bytes = 0;  // room for chunks; 0: not known
  ServerState state = ServerState::Active;
  // Counts how often an empty disk has taken the place of this server's disk. A disk with a smaller
  // number is one that was replaced.
  uint64_t incarnation = 1;
  uint64_t replaced_at_view = 0;  // the view since which the disk is in use
  bool operator==(const ServerRecord&) const = default;
};

// A sealed block, which never changes, except that its chunks move.
struct BlockRecord {
  uint64_t id = 0;
  uint32_t chunk_bytes = 0;
  std::vector<int32_t> servers;     // by chunk; kNoServer: the chunk is lost, and must be repaired
  std::vector<uint64_t> checksums;  // by chunk: hash64 of its bytes
  bool operator==(const BlockRecord&) const = default;
};

// A part of a file: bytes of the data of a block. Small files share a block.
struct Extent {
  uint64_t block = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  bool operator==(const Extent&) const = default;
};

struct FileRecord {
  std::vector<Extent> extents;
  uint64_t bytes = 0;
  uint64_t checksum = 0;  // hash64 of the whole file
  uint64_t token = 0;     // of its writer
  bool operator==(const FileRecord&) const = default;
};

// A chunk on a server that no file needs any more, because its block is gone or it has moved.
struct Garbage {
  int32_t server = kNoServer;
  uint64_t block = 0;
  int32_t chunk = 0;
  auto operator<=>(const Garbage&) const = default;
};

enum class UpkeepKind : uint8_t { None, Scrub, Repair, Drain };
std::string_view text_of(UpkeepKind kind);

// How far the work of a maintainer is.
struct UpkeepProgress {
  UpkeepKind kind = UpkeepKind::None;  // None: nothing is known
  uint64_t done = 0;                   // blocks
  uint64_t total = 0;                  // likewise; it may grow
  uint64_t bytes = 0;                  // of the chunks that were read by a scrub, or moved
  uint64_t ms = 0;                     // since the work began
  bool operator==(const UpkeepProgress&) const = default;
};

struct StoreFacts {
  uint64_t id = 0;  // distinguishes stores
  std::string name;
  StoreCode code;
  uint32_t most_chunk_bytes = uint32_t(kMostChunkBytes);
  bool operator==(const StoreFacts&) const = default;
};

void pack(PackedWriter& writer, const ServerRecord& server);
void pack(PackedWriter& writer, const BlockRecord& block);
void pack(PackedWriter& writer, const FileRecord& file);
void pack(PackedWriter& writer, const Garbage& garbage);
void pack(PackedWriter& writer, const StoreFacts& facts);
void pack(PackedWriter& writer, const UpkeepProgress& progress);
void unpack(PackedReader& reader, ServerRecord& server);
void unpack(PackedReader& reader, BlockRecord& block);
void unpack(PackedReader& reader, FileRecord& file);
void unpack(PackedReader& reader, Garbage& garbage);
void unpack(PackedReader& reader, StoreFacts& facts);
void unpack(PackedReader& reader, UpkeepProgress& progress);

// Packs a list behind its length. No record is shorter than eight bytes.
template <typename Record>
void pack(PackedWriter& writer, const std::vector<Record>& records) {
  writer.number(uint32_t(records.size()));
  for (const Record& record : records) pack(writer, record);
}
template <typename Record>
void unpack(PackedReader& reader, std::vector<Record>& records) {
  records.resize(reader.count(8));
  for (Record& record : records) unpack(reader, record);
}

}  // namespace trireme
