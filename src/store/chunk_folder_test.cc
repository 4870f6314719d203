#include "store/chunk_folder.h"

#include "store/store_fixture.h"

namespace trireme {
namespace {

TEST(ChunkFolder, WritesNoBytesThatHaveAnotherChecksum) {
  const TestStore test({2, 1});
  ChunkFolder folder(test.file.dirs[0], test.file.id, nullptr);
  const std::string text = "some bytes";
  const auto bytes = std::as_bytes(std::span(text));
  EXPECT_FALSE(folder.write({1, 0}, bytes, hash64(bytes) + 1).ok());
  EXPECT_TRUE(folder.list()->empty());
  EXPECT_TRUE(folder.write({1, 0}, bytes, hash64(bytes)).ok());
}

// A missing chunk is repaired, and a folder that may be mounted again is not.
TEST(ChunkFolder, AChunkIsMissingOnlyIfItsDiskIsThere) {
  const TestStore test({2, 1});
  ChunkFolder folder(test.file.dirs[0], test.file.id, nullptr);
  std::string bytes(10, ' ');
  const auto read = [&] {
    return folder.read({1, 0}, std::as_writable_bytes(std::span(bytes)), 0).state;
  };
  EXPECT_EQ(read(), ChunkState::Missing);
  test.lose(0);
  EXPECT_EQ(read(), ChunkState::Unreadable);
  test.bring_back(0);
  EXPECT_EQ(read(), ChunkState::Missing);
}

constexpr size_t kThreePieces = 2 * kChunkPieceBytes + 1000;

std::string file_of(const ChunkFolder& folder, ChunkName name) {
  std::stringstream bytes;
  bytes << std::ifstream(folder.path_of(name), std::ios::binary).rdbuf();
  return bytes.str();
}
void write_file_of(const ChunkFolder& folder, ChunkName name, const std::string& bytes) {
  std::ofstream(folder.path_of(name), std::ios::binary) << bytes;
}

// Returns the state of a part of one piece, and compares its bytes if they are intact.
ChunkState read_piece(ChunkFolder& folder, const std::string& content, size_t piece) {
  const size_t offset = piece * kChunkPieceBytes;
  std::string part(std::min<size_t>(kChunkPieceBytes, content.size() - offset), ' ');
  const uint64_t checksum = hash64(std::as_bytes(std::span(content)));
  const ChunkRead read =
      folder.read_part({1, 0}, {uint32_t(content.size()), checksum, uint32_t(offset)},
                       std::as_writable_bytes(std::span(part)));
  if (read.state == ChunkState::Intact) {
    EXPECT_EQ(part, content.substr(offset, part.size())) << piece;
  }
  return read.state;
}

TEST(ChunkFolder, APieceIsReadAloneAndEveryByteThatItDependsOnIsChecked) {
  const TestStore test({2, 1});
  ChunkFolder folder(test.file.dirs[0], test.file.id, nullptr);
  const std::string content = random_bytes(1, kThreePieces);
  const auto bytes = std::as_bytes(std::span(content));
  ASSERT_TRUE(folder.write({1, 0}, bytes, hash64(bytes)).ok());
  const std::string file = file_of(folder, {1, 0});
  ASSERT_EQ(file.size(), 64 + kThreePieces + 3 * 8);
  for (size_t piece = 0; piece < 3; ++piece) {
    EXPECT_EQ(read_piece(folder, content, piece), ChunkState::Intact);
  }
  std::string whole(content.size(), ' ');
  const auto read_whole = [&] {
    return folder.read({1, 0}, std::as_writable_bytes(std::span(whole)), hash64(bytes)).state;
  };
  EXPECT_EQ(read_whole(), ChunkState::Intact);
  // The header, the checksums of pieces, and a few bytes of each piece.
  for (size_t at = 0; at < file.size(); at += at < 64 || at >= 64 + kThreePieces ? 1 : 9973) {
    std::string flipped = file;
    flipped[at] = char(flipped[at] ^ 1);
    write_file_of(folder, {1, 0}, flipped);
    EXPECT_EQ(read_whole(), ChunkState::Damaged) << at;
    const bool is_content = at >= 64 && at < 64 + kThreePieces;
    for (size_t piece = 0; piece < 3; ++piece) {
      const bool is_other_piece = is_content && (at - 64) / kChunkPieceBytes != piece;
      EXPECT_EQ(read_piece(folder, content, piece),
                is_other_piece ? ChunkState::Intact : ChunkState::Damaged)
          << at;
    }
  }
}

// Files from before pieces had checksums end behind the chunk.
TEST(ChunkFolder, AnOlderFileIsReadAsAWholeAndInParts) {
  const TestStore test({2, 1});
  ChunkFolder folder(test.file.dirs[0], test.file.id, nullptr);
  const std::string content = random_bytes(1, kThreePieces);
  const auto bytes = std::as_bytes(std::span(content));
  ASSERT_TRUE(folder.write({1, 0}, bytes, hash64(bytes)).ok());
  std::string file = file_of(folder, {1, 0}).substr(0, 64 + kThreePieces);
  file.replace(28, 4, 4, '\0');
  file.replace(48, 8, 8, '\0');
  const uint64_t seal = hash64(std::string_view(file).substr(0, 56));
  file.replace(56, 8, std::string_view(reinterpret_cast<const char*>(&seal), 8));
  write_file_of(folder, {1, 0}, file);
  std::string whole(content.size(), ' ');
  const auto room = std::as_writable_bytes(std::span(whole));
  EXPECT_EQ(folder.read({1, 0}, room, hash64(bytes)).state, ChunkState::Intact);
  EXPECT_EQ(whole, content);
  EXPECT_EQ(folder.check({1, 0}, room).state, ChunkState::Intact);
  for (size_t piece = 0; piece < 3; ++piece) {
    EXPECT_EQ(read_piece(folder, content, piece), ChunkState::Intact);
  }
  file[100'000] = char(file[100'000] ^ 1);
  write_file_of(folder, {1, 0}, file);
  EXPECT_EQ(read_piece(folder, content, 0), ChunkState::Damaged);
}

}  // namespace
}  // namespace trireme
