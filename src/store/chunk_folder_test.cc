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

}  // namespace
}  // namespace trireme
