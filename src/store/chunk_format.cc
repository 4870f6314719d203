#include "store/chunk_format.h"

#include <algorithm>

#include "base/hash.h"

namespace trireme {

std::span<const std::byte> bytes_of_header(const ChunkHeader& header) {
  return std::as_bytes(std::span(&header, 1));
}

ChunkHeader header_of(uint64_t store, ChunkName name, uint64_t bytes, uint64_t checksum,
                      uint32_t piece_bytes, uint64_t pieces_checksum) {
  ChunkHeader header{.store = store, .block = name.block, .chunk = name.chunk};
  header.piece_bytes = piece_bytes;
  header.bytes = bytes;
  header.checksum = checksum;
  header.pieces_checksum = pieces_checksum;
  header.header_checksum =
      hash64(bytes_of_header(header).first(offsetof(ChunkHeader, header_checksum)));
  return header;
}

uint64_t piece_checksum(uint64_t number, std::span<const std::byte> piece) {
  return hash64(piece, number);
}

void ChunkHasher::update(std::span<const std::byte> part) {
  for (size_t begin = 0; begin < part.size(); begin += kChunkPieceBytes) {
    const auto piece = part.subspan(begin, std::min<size_t>(kChunkPieceBytes, part.size() - begin));
    whole_.update(piece);
    if (has_pieces_) pieces_.push_back(piece_checksum(pieces_.size(), piece));
  }
}

}  // namespace trireme
