#include "checkpoint/memory_shards.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/stream_copy.h"
#include "checkpoint/checkpoint_fixture.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class MemoryShardsTest : public FolderTest {
 protected:
  std::string folder(int step) {
    const std::string path = root() + "/step-" + std::to_string(step);
    fs::create_directories(path);
    return path;
  }
  static std::string content(int step, size_t bytes) {
    std::string text(bytes, '\0');
    for (size_t i = 0; i < bytes; ++i) text[i] = char(i * 7 + size_t(step) * 31);
    return text;
  }
  static Status write(MemoryShards& shards, const std::string& folder, const std::string& text) {
    TRIREME_TRY(place, shards.begin(folder, "shard", int64_t(text.size())));
    stream_copy(place.data(), std::as_bytes(std::span(text)));
    end_stream_copies();
    return shards.finish();
  }
};

// While a shard is written, the newest complete one is intact, and one that is overwritten has left
// its checkpoint. Lengths may change.
TEST_F(MemoryShardsTest, TheNewestShardIsIntactWhileAnotherOneIsWritten) {
  MemoryShards shards(root(), 3, 1);
  for (int step = 1; step <= 6; ++step) {
    const std::string text = content(step, step < 4 ? 10'001 : 333);
    ASSERT_TRUE(write(shards, folder(step), text).ok());
    shards.note_committed(folder(step));
    EXPECT_EQ(*read_text_file(folder(step) + "/shard"), text);
    auto next = shards.begin(folder(100), "shard", int64_t(text.size()));
    ASSERT_TRUE(next.ok());
    const std::string other = content(99, text.size());
    stream_copy(next->data(), std::as_bytes(std::span(other)));
    end_stream_copies();
    EXPECT_EQ(*read_text_file(folder(step) + "/shard"), text);
    EXPECT_FALSE(fs::exists(folder(100) + "/shard"));
    ASSERT_TRUE(write(shards, folder(200 + step), text).ok());  // the newest one leaves now
    EXPECT_FALSE(fs::exists(folder(step) + "/shard"));
  }
}

TEST_F(MemoryShardsTest, CheckpointsOutliveTheirWriterAndNothingElseIsLeft) {
  const std::string text = content(1, 5000);
  {
    MemoryShards shards(root(), 0, 1);
    ASSERT_TRUE(write(shards, folder(1), text).ok());
  }
  EXPECT_EQ(*read_text_file(folder(1) + "/shard"), text);
  EXPECT_EQ(std::distance(fs::directory_iterator(root()), fs::directory_iterator()), 1);
}

TEST_F(MemoryShardsTest, MemoryThatIsMissingIsAnErrorAndNoSignal) {
  MemoryShards shards(root(), 0, 1);
  const auto begun = shards.begin(folder(1), "shard", int64_t{1} << 60);
  ASSERT_FALSE(begun.ok());
  EXPECT_NE(begun.error().message.find("allocate"), std::string::npos) << begun.error().message;
}

TEST(StreamCopy, CopiesEveryLengthAndAlignment) {
  std::vector<std::byte> from(200), to(240);
  for (size_t i = 0; i < from.size(); ++i) from[i] = std::byte(i + 1);
  for (size_t offset = 0; offset < 17; ++offset) {
    for (size_t bytes = 0; bytes <= 150; ++bytes) {
      std::fill(to.begin(), to.end(), std::byte(0));
      stream_copy(to.data() + offset, std::span(from).subspan(offset % 5, bytes));
      end_stream_copies();
      for (size_t i = 0; i < to.size(); ++i) {
        const bool is_inside = i >= offset && i < offset + bytes;
        ASSERT_EQ(to[i], is_inside ? from[i - offset + offset % 5] : std::byte(0));
      }
    }
  }
}

}  // namespace
}  // namespace trireme
