#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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

struct ChunkChecksums {
  uint64_t whole = 0;
  std::vector<uint64_t> pieces;  // empty for a chunk of one piece
};
ChunkChecksums checksums_of(std::span<const std::byte> bytes);

}  // namespace trireme
