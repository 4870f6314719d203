#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "store/block_reader.h"
#include "store/store_input.h"

namespace trireme {

// The file as the metadata described it when the store was opened.
struct OpenedFile {
  std::shared_ptr<Store> store;
  FileAnswer answer;

  const FileRecord& record() const { return answer.files.front().record; }
};

Result<std::shared_ptr<const OpenedFile>> open_file(const OpenForReading& open,
                                                    const std::string& path);

// The part of a file that lies in one chunk.
struct FilePiece {
  int64_t begin = 0;  // in the file
  int64_t bytes = 0;
  size_t block = 0;      // index in FileAnswer::blocks
  int chunk = 0;         // of the block
  int64_t in_chunk = 0;  // where the piece begins in it
  bool operator==(const FilePiece&) const = default;
};

// Returns the parts of a file in its order.
Result<std::vector<FilePiece>> pieces_of(const OpenedFile& file);

// A piece in memory, or on its way there. Several threads may call it.
class HeldPiece {
 public:
  // Starts to read the piece.
  HeldPiece(std::shared_ptr<const OpenedFile> file, const FilePiece& piece);
  // Waits for the bytes, and copies those from `offset` on.
  Status copy(int64_t offset, std::span<std::byte> out);

 private:
  const std::shared_ptr<const OpenedFile> file_;  // outlives the reader
  const FilePiece piece_;
  const ChunkRange range_;  // of the chunk, in which the piece lies
  std::mutex mutex_;
  std::shared_ptr<BlockReader> reader_;  // null: the bytes are there
  std::vector<std::byte> bytes_;
};

}  // namespace trireme
