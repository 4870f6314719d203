#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.h"
#include "store/chunk_target.h"

namespace trireme {

// The head of the file of a chunk. The bytes of the chunk follow, and then the checksums of its
// pieces, each of 8 bytes (docs/store.md).
struct ChunkHeader {
  std::array<char, 8> magic = {'t', 'r', 'i', 'r', 'c', 'h', 'k', '1'};
  uint64_t store = 0;
  uint64_t block = 0;
  int32_t chunk = 0;
  uint32_t piece_bytes = 0;  // 0: there are no checksums of pieces
  uint64_t bytes = 0;
  uint64_t checksum = 0;         // hash64 of the bytes that follow
  uint64_t pieces_checksum = 0;  // hash64 of the checksums of pieces behind them
  uint64_t header_checksum = 0;  // hash64 of everything above
};
static_assert(sizeof(ChunkHeader) == 64);

std::span<const std::byte> bytes_of_header(const ChunkHeader& header);
ChunkHeader header_of(uint64_t store, ChunkName name, uint64_t bytes, uint64_t checksum,
                      uint32_t piece_bytes, uint64_t pieces_checksum);

// The seed is the number of the piece, so that a piece in a wrong place does not match.
uint64_t piece_checksum(uint64_t number, std::span<const std::byte> piece);

// The checksums of a chunk of so many bytes, which arrives in parts.
class ChunkHasher {
 public:
  explicit ChunkHasher(size_t bytes) : has_pieces_(bytes > kChunkPieceBytes) {}
  // Every part but the last one has whole pieces.
  void update(std::span<const std::byte> part);
  uint64_t whole() const { return whole_.digest(); }
  // Empty for a chunk of one piece.
  std::span<const uint64_t> pieces() const { return pieces_; }

 private:
  bool has_pieces_;
  Hasher64 whole_;
  std::vector<uint64_t> pieces_;
};

}  // namespace trireme
