// What a repair and a drain read and write, and that they do so for several blocks at a time.

#include "store/repair.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>

#include "comm/tcp/socket.h"
#include "store/store_fixture.h"
#include "store/store_status.h"

namespace trireme {
namespace {

constexpr StoreCode kCode{4, 2};
constexpr size_t kChunkBytes = 4096;
constexpr size_t kBlocks = 12;

// Counts the reads of chunks by folder. If asked, the first sync of a chunk waits until another
// chunk is synced at the same moment.
class WatchedDisks : public DiskFaults {
 public:
  Status before(DiskCall call, const std::string& path, size_t& /*bytes*/) override {
    if (path.find("/chunks/") == std::string::npos) return Done{};
    std::unique_lock lock(mutex_);
    if (call == DiskCall::Read) {
      ++reads_[path.substr(0, path.find("/chunks/"))];
    }
    if (call != DiskCall::Sync || !waits_) return Done{};
    ++num_syncing_;
    has_news_.notify_all();
    const auto are_together = [&] { return num_together_ > 0 || num_syncing_ > 1; };
    if (has_news_.wait_for(lock, std::chrono::seconds(5), are_together)) ++num_together_;
    waits_ = false;
    --num_syncing_;
    return Done{};
  }
  void begin(bool waits) {
    const std::lock_guard lock(mutex_);
    reads_.clear();
    waits_ = waits;
  }
  int64_t num_reads(const std::string& folder) {
    const std::lock_guard lock(mutex_);
    return reads_[folder];
  }
  int64_t num_reads() {
    const std::lock_guard lock(mutex_);
    return num_reads_of_all();
  }
  int64_t num_together() {
    const std::lock_guard lock(mutex_);
    return num_together_;
  }

 private:
  int64_t num_reads_of_all() const {
    int64_t sum = 0;
    for (const auto& [folder, count] : reads_) sum += count;
    return sum;
  }

  std::mutex mutex_;
  std::condition_variable has_news_;
  std::map<std::string, int64_t> reads_;
  bool waits_ = false;
  int num_syncing_ = 0;
  int64_t num_together_ = 0;
};

class RepairTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(test_.created.ok()) << test_.created.error().message;
    auto store = test_.open();
    ASSERT_TRUE(store.ok()) << store.error().message;
    ASSERT_TRUE(put_files(**store, {test_.made("x", content_)}).ok());
  }
  void expect_healthy() const {
    auto store = test_.open_for_reading();
    ASSERT_TRUE(store.ok()) << store.error().message;
    EXPECT_EQ(word_of(*health_of(**store)), "healthy");
    EXPECT_EQ(content_of(**store, "x").value(), content_);
  }

  WatchedDisks disks_;
  const TestStore test_{kCode, 7, kChunkBytes, &disks_};
  const std::string content_ = random_bytes(1, kBlocks * 4 * kChunkBytes);
};

TEST_F(RepairTest, ReadsAsManyChunksOfABlockAsTheCodeNeedsAndNoMore) {
  test_.replace_with_empty(0);
  auto store = test_.open();
  ASSERT_TRUE(store.ok()) << store.error().message;
  disks_.begin(false);
  const auto totals = repair(**store);
  ASSERT_TRUE(totals.ok()) << totals.error().message;
  EXPECT_GT(totals->num_repaired, 0);
  EXPECT_EQ(disks_.num_reads(), kCode.num_data * totals->num_repaired);
  expect_healthy();
}

// The chunk that is wrong is found while its block is read, so another one is read in its place.
TEST_F(RepairTest, ReadsAnotherChunkIfOneOfThoseIsDamaged) {
  test_.replace_with_empty(0);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(test_.file.dirs[1])) {
    if (entry.path().string().find("/chunks/") == std::string::npos || !entry.is_regular_file()) {
      continue;
    }
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file.put('x').put('y').put('z');
  }
  auto store = test_.open();
  ASSERT_TRUE(store.ok()) << store.error().message;
  const auto first = repair(**store);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->lost, std::vector<std::string>());
  ASSERT_TRUE(scrub_store(**store).ok());
  expect_healthy();
}

TEST_F(RepairTest, WritesChunksOfSeveralBlocksAtATime) {
  test_.replace_with_empty(0);
  auto store = test_.open();
  ASSERT_TRUE(store.ok()) << store.error().message;
  disks_.begin(true);
  const auto totals = repair(**store);
  disks_.begin(false);
  ASSERT_TRUE(totals.ok()) << totals.error().message;
  EXPECT_GT(disks_.num_together(), 0);
  expect_healthy();
}

TEST_F(RepairTest, ADrainReadsOnlyTheChunksThatItMoves) {
  auto store = test_.open();
  ASSERT_TRUE(store.ok()) << store.error().message;
  disks_.begin(false);
  const auto totals = drain_server(**store, "s2");
  ASSERT_TRUE(totals.ok()) << totals.error().message;
  EXPECT_EQ(disks_.num_reads(), totals->num_repaired);
  EXPECT_EQ(disks_.num_reads(test_.file.dirs[2]), totals->num_repaired);
  expect_healthy();
}

// A scrub that finds more damaged chunks than the code bears does not remove what is left of them.
// If one of them is intact later, the block is recovered.
TEST(Scrub, FilesOfChunksThatCannotBeRecoveredStayAndAreFoundAgain) {
  const TestStore test({2, 1});
  const std::string content = random_bytes(3, 20'000);
  {
    auto store = test.open();
    ASSERT_TRUE(put_files(**store, {test.made("x", content)}).ok());
  }
  std::vector<std::string> flipped;
  const auto flip = [](const std::string& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(100);
    const char old = char(file.get());
    file.seekp(100);
    file.put(char(old ^ 1));
  };
  for (const int folder : {0, 2}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(
             test.file.dirs[size_t(folder)] + "/chunks")) {
      if (entry.is_regular_file()) flipped.push_back(entry.path().string());
    }
  }
  for (const std::string& path : flipped) flip(path);
  for (int scrub = 0; scrub < 2; ++scrub) {
    auto store = test.open();
    const auto totals = scrub_store(**store);
    ASSERT_TRUE(totals.ok()) << totals.error().message;
    EXPECT_FALSE(totals->repaired.lost.empty());
    EXPECT_EQ(totals->num_orphans, 0);
    const auto content_now = content_of(**store, "x");
    ASSERT_FALSE(content_now.ok());
    EXPECT_EQ(content_now.error().message.find("nowhere"), std::string::npos);
    for (const std::string& path : flipped) ASSERT_TRUE(std::filesystem::exists(path)) << path;
  }
  for (const std::string& path : flipped) {
    if (path.starts_with(test.file.dirs[2])) flip(path);
  }
  auto store = test.open();
  const auto totals = scrub_store(**store);
  ASSERT_TRUE(totals.ok()) << totals.error().message;
  EXPECT_TRUE(totals->repaired.lost.empty());
  EXPECT_EQ(word_of(*health_of(**store)), "healthy");
  EXPECT_EQ(content_of(**store, "x").value(), content);
}

}  // namespace
}  // namespace trireme
