#include "checkpoint/memory_shards.h"

#include <gtest/gtest.h>

#include <cstring>
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
  Status write(MemoryShards& shards, const std::string& folder, const std::string& text) {
    TRIREME_TRY(place, shards.begin(int64_t(text.size())));
    stream_copy(place.data(), std::as_bytes(std::span(text)));
    end_stream_copies();
    TRIREME_TRY_DONE(shards.take());
    name_newest(shards, folder);
    return Done{};
  }
  void name_newest(MemoryShards& shards, const std::string& folder) {
    const int file = shards.set_pending(folder, "shard");
    fs::create_hard_link(MemoryShards::path_of(root(), rank_, 1, file), folder + "/shard");
  }

  int rank_ = 0;
};

// While a shard is written, the newest complete one is intact, and one that is overwritten has left
// its checkpoint. Lengths may change.
TEST_F(MemoryShardsTest, TheNewestShardIsIntactWhileAnotherOneIsWritten) {
  rank_ = 3;
  MemoryShards shards(root(), 3, 1);
  for (int step = 1; step <= 6; ++step) {
    const std::string text = content(step, step < 4 ? 10'001 : 333);
    ASSERT_TRUE(write(shards, folder(step), text).ok());
    shards.note_committed(folder(step));
    EXPECT_EQ(*read_text_file(folder(step) + "/shard"), text);
    auto next = shards.begin(int64_t(text.size()));
    ASSERT_TRUE(next.ok());
    const std::string other = content(99, text.size());
    stream_copy(next->data(), std::as_bytes(std::span(other)));
    end_stream_copies();
    EXPECT_EQ(*read_text_file(folder(step) + "/shard"), text);
    ASSERT_TRUE(write(shards, folder(200 + step), text).ok());
    EXPECT_TRUE(fs::exists(folder(step) + "/shard"));
    ASSERT_TRUE(shards.begin(int64_t(text.size())).ok());  // now it leaves
    EXPECT_FALSE(fs::exists(folder(step) + "/shard"));
  }
}

// A state that is held keeps its addresses, although every update writes it to the other file. A
// committed checkpoint never changes, and without one the state is updated in place.
TEST_F(MemoryShardsTest, AHeldStateKeepsItsAddressesAndLeavesCommittedCheckpoints) {
  for (const size_t bytes : {size_t(333), size_t(5) << 20}) {
    const std::string own = root() + "/" + std::to_string(bytes);
    fs::create_directories(own);
    MemoryShards shards(own, 0, 1);
    const auto state = shards.hold_state(int64_t(bytes));
    ASSERT_TRUE(state.ok()) << state.error().message;
    const auto text = [&] {
      return std::string(reinterpret_cast<const char*>(state->data()), state->size());
    };
    std::string newest;
    for (int step = 1; step <= 9; ++step) {
      const auto target = shards.begin(int64_t(bytes));
      ASSERT_TRUE(target.ok());
      EXPECT_EQ(target->data() == state->data(), newest.empty() || step % 3 == 0);
      const std::string updated = content(step, bytes);
      std::memcpy(target->data(), updated.data(), bytes);
      ASSERT_TRUE(shards.take().ok());
      EXPECT_EQ(text(), updated);
      if (!newest.empty()) {
        EXPECT_NE(*read_text_file(newest), updated);
      }
      if (step % 3 == 2) continue;  // the next step finds a state that is in no checkpoint
      const std::string begun = folder(step * 1000 + int(bytes % 1000));
      const int file = shards.set_pending(begun, "shard");
      fs::create_hard_link(MemoryShards::path_of(own, 0, 1, file), begun + "/shard");
      shards.note_committed(begun);
      newest = begun + "/shard";
      EXPECT_EQ(*read_text_file(newest), updated);
    }
  }
}

// While a shard is copied to other hosts, updates go on in a third file. Neither the pending
// checkpoint nor the committed one changes, and the state keeps its addresses.
TEST_F(MemoryShardsTest, AThirdFileLetsUpdatesGoOnWhileAShardIsPending) {
  constexpr size_t kBytes = size_t(3) << 20;
  MemoryShards shards(root(), 0, 1);
  const auto state = shards.hold_state(kBytes);
  ASSERT_TRUE(state.ok()) << state.error().message;
  const auto update = [&](int step) {
    const std::string updated = content(step, kBytes);
    std::memcpy(shards.begin(kBytes)->data(), updated.data(), kBytes);
    ASSERT_TRUE(shards.take().ok());
    EXPECT_EQ(std::memcmp(state->data(), updated.data(), kBytes), 0);
  };
  update(1);
  name_newest(shards, folder(1));
  EXPECT_FALSE(shards.may_be_pending());  // the update would have to write one of two files
  ASSERT_TRUE(shards.add_file().ok());
  EXPECT_TRUE(shards.may_be_pending());
  int committed = 0, pending = 1;
  for (int step = 2; step <= 12; ++step) {
    update(step);
    EXPECT_EQ(*read_text_file(folder(pending) + "/shard"), content(pending, kBytes));
    if (committed > 0) {
      EXPECT_EQ(*read_text_file(folder(committed) + "/shard"), content(committed, kBytes));
    }
    EXPECT_TRUE(shards.may_be_pending());
    if (step % 3 != 0) continue;
    shards.note_committed(folder(pending));
    committed = pending;
    update(++step);
    name_newest(shards, folder(step));
    pending = step;
  }
  shards.drop_pending();
  EXPECT_FALSE(fs::exists(folder(pending) + "/shard"));
  EXPECT_EQ(*read_text_file(folder(committed) + "/shard"), content(committed, kBytes));
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
  const auto begun = shards.begin(int64_t{1} << 60);
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
