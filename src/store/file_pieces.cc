#include "store/file_pieces.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

namespace trireme {
namespace {

// Returns the pieces of a chunk in which a piece of the file lies.
ChunkRange range_of(const FilePiece& piece, uint32_t chunk_bytes) {
  const int64_t begin = piece.in_chunk / kChunkPieceBytes * kChunkPieceBytes;
  const int64_t behind = (piece.in_chunk + piece.bytes + kChunkPieceBytes - 1) / kChunkPieceBytes;
  const int64_t end = std::min<int64_t>(behind * kChunkPieceBytes, chunk_bytes);
  return {uint32_t(begin), uint32_t(end - begin)};
}

}  // namespace

Result<std::shared_ptr<const OpenedFile>> open_file(const OpenForReading& open,
                                                    const std::string& path) {
  TRIREME_TRY(store, open());
  auto opened = std::make_shared<OpenedFile>();
  opened->store = std::move(store);
  TRIREME_TRY(answer, opened->store->ask({.kind = QuestionKind::File, .text = path}));
  opened->answer = std::move(answer);
  return std::shared_ptr<const OpenedFile>(std::move(opened));
}

Result<std::vector<FilePiece>> pieces_of(const OpenedFile& file) {
  std::map<uint64_t, size_t> index_of_block;
  for (const BlockRecord& block : file.answer.blocks) {
    index_of_block.emplace(block.id, index_of_block.size());
  }
  const auto num_data = uint64_t(file.store->code().num_data);
  std::vector<FilePiece> pieces;
  int64_t begin = 0;
  for (const Extent& extent : file.record().extents) {
    const auto found = index_of_block.find(extent.block);
    if (found == index_of_block.end()) {
      return damaged("the metadata have no record of a block of the file");
    }
    const uint64_t chunk_bytes = file.answer.blocks[found->second].chunk_bytes;
    if (extent.offset + extent.bytes > chunk_bytes * num_data) {
      return damaged("the metadata have an extent outside its block");
    }
    for (uint64_t at = extent.offset; at < extent.offset + extent.bytes;) {
      const uint64_t end =
          std::min(extent.offset + extent.bytes, (at / chunk_bytes + 1) * chunk_bytes);
      pieces.push_back({.begin = begin,
                        .bytes = int64_t(end - at),
                        .block = found->second,
                        .chunk = int(at / chunk_bytes),
                        .in_chunk = int64_t(at % chunk_bytes)});
      begin += int64_t(end - at);
      at = end;
    }
  }
  if (begin != int64_t(file.record().bytes)) {
    return damaged("the metadata have extents of another length than the file");
  }
  return pieces;
}

HeldPiece::HeldPiece(std::shared_ptr<const OpenedFile> file, const FilePiece& piece)
    : file_(std::move(file)),
      piece_(piece),
      range_(range_of(piece, file_->answer.blocks[piece.block].chunk_bytes)),
      reader_(BlockReader::start(*file_->store, file_->answer.blocks[piece.block], piece.chunk,
                                 piece.chunk, nullptr, range_)) {}

Status HeldPiece::copy(int64_t offset, std::span<std::byte> out) {
  const std::lock_guard lock(mutex_);
  if (reader_ != nullptr) {
    const Result<std::span<std::byte>> block = reader_->finish();
    if (!block.ok()) return block.error();
    const int64_t begin = int64_t{piece_.chunk} * range_.bytes + piece_.in_chunk - range_.offset;
    const auto bytes = block->subspan(size_t(begin), size_t(piece_.bytes));
    bytes_.assign(bytes.begin(), bytes.end());
    reader_.reset();
  }
  std::memcpy(out.data(), bytes_.data() + offset, out.size());
  return Done{};
}

}  // namespace trireme
