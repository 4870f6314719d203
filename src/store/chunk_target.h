#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace trireme {

struct ChunkName {
  uint64_t block = 0;
  int32_t chunk = 0;
  auto operator<=>(const ChunkName&) const = default;
};

enum class ChunkState {
  Intact,
  Damaged,     // its bytes are wrong, so it is repaired
  Missing,     // the disk works and does not have it, so it is repaired
  Unreadable,  // the disk reports an error; it may work again, so the chunk stays where it is
};

struct ChunkRead {
  ChunkState state = ChunkState::Intact;
  std::string why = {};
  bool is_lost() const { return state == ChunkState::Damaged || state == ChunkState::Missing; }
};

struct ChunkRange {
  uint32_t offset = 0;
  uint32_t bytes = 0;
};

// A part of a chunk, which is read without the rest of it.
struct ChunkPart {
  uint32_t chunk_bytes = 0;  // of the whole chunk
  uint64_t checksum = 0;     // likewise
  uint32_t offset = 0;       // a multiple of kChunkPieceBytes
};
// A chunk of more bytes has a checksum of each piece of this length, the last of which may be
// shorter.
inline constexpr uint32_t kChunkPieceBytes = 64 << 10;
// What is both copied and hashed goes through in parts of this length, so that the second pass
// finds its bytes in the cache of the core. A multiple of kChunkPieceBytes.
inline constexpr size_t kCachedPartBytes = size_t{4} * kChunkPieceBytes;

// A place for chunks, such as the folder of a disk. Any thread may call it.
class ChunkTarget {
 public:
  virtual ~ChunkTarget() = default;
  // Returns once the chunk is on the disk. Refuses bytes that do not have the checksum.
  virtual Status write(ChunkName name, std::span<const std::byte> bytes, uint64_t checksum) = 0;
  // Fills `bytes`, which has the length of the chunk, and compares the checksum.
  virtual ChunkRead read(ChunkName name, std::span<std::byte> bytes, uint64_t checksum) = 0;
  // Fills `bytes` with whole pieces of a chunk, and compares their checksums.
  virtual ChunkRead read_part(ChunkName name, const ChunkPart& part,
                              std::span<std::byte> bytes) = 0;
  // It is no error if the chunk is not there.
  virtual Status remove(ChunkName name) = 0;
  // Returns the names of all chunks, in any order.
  virtual Result<std::vector<ChunkName>> list() = 0;
  // Removes the files of chunks whose write was interrupted by a crash, and returns their number.
  // No write may be under way.
  virtual Result<int64_t> remove_unfinished() = 0;
};

}  // namespace trireme
