// When a put is acknowledged: once all chunks of a block but one are on disks and the last one has
// had its time. And how many servers a block may try.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "store/store_fixture.h"

namespace trireme {
namespace {

constexpr double kLongS = 30.0;

// Syncs of chunks in some folders wait until they are let go. Chunks in others cannot be written.
class Folders : public DiskFaults {
 public:
  Status before(DiskCall call, const std::string& path, size_t&) override {
    const size_t chunks = path.find("/chunks/");
    if (chunks == std::string::npos) return Done{};
    const std::string folder = path.substr(path.rfind('/', chunks - 1) + 1, 2);
    std::unique_lock lock(mutex_);
    if (call == DiskCall::Create) tried_.insert(folder);
    if (call == DiskCall::Create && full.contains(folder)) return damaged(path + ": no space left");
    if (call == DiskCall::Sync && slow.contains(folder)) {
      has_news_.wait_for(lock, std::chrono::duration<double>(kLongS), [&] { return is_free_; });
    }
    return Done{};
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    is_free_ = true;
    has_news_.notify_all();
  }
  std::set<std::string> tried() {
    const std::lock_guard lock(mutex_);
    return std::exchange(tried_, {});
  }
  std::set<std::string> slow, full;  // set before the store is used

 private:
  std::mutex mutex_;
  std::condition_variable has_news_;
  bool is_free_ = false;
  std::set<std::string> tried_;
};

TEST(Straggler, APutIsAcknowledgedWithAllChunksButOneAndALittleLater) {
  Folders folders;
  folders.slow = {"d3"};
  const TestStore test({4, 2}, 0, 4096, &folders);
  auto store = test.open();
  const std::string content = random_bytes(1, 4 * 4096);
  const int64_t begin_ns = monotonic_ns();
  const auto put = put_files(**store, {test.made("x", content)});
  const double seconds = seconds_since(begin_ns);
  ASSERT_TRUE(put.ok()) << put.error().message;
  EXPECT_EQ(put->chunks_to_repair, 1);
  EXPECT_GE(seconds, test.options.straggler_s);
  EXPECT_LT(seconds, kLongS / 2);
  EXPECT_EQ(content_of(**store, "x").value(), content);
  folders.let_go();
}

// Five chunks of six may be acknowledged, and four may not.
TEST(Straggler, APutWaitsForTheChunkBeforeTheLastOne) {
  Folders folders;
  folders.slow = {"d3", "d5"};
  const TestStore test({4, 2}, 0, 4096, &folders);
  auto store = test.open();
  std::atomic<bool> is_done = false;
  std::thread writer([&] {
    const auto put = put_files(**store, {test.made("x", random_bytes(1, 4 * 4096))});
    is_done = true;
    EXPECT_TRUE(put.ok()) << put.error().message;
  });
  std::this_thread::sleep_for(std::chrono::duration<double>(4 * test.options.straggler_s));
  EXPECT_FALSE(is_done);
  folders.let_go();
  writer.join();
}

TEST(Straggler, TwoServersMoreThanChunksAreReservedForABlock) {
  Folders folders;
  const TestStore test({2, 1}, 8, 4096, &folders);
  auto store = test.open();
  folders.full = {"d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7"};
  EXPECT_FALSE(put_files(**store, {test.made("x", "text")}).ok());
  EXPECT_EQ(folders.tried().size(), 5u);
  // So two servers may be full, whichever the hash of the block chooses first.
  folders.full = {"d2", "d6"};
  size_t num_tried = 0;
  for (int put = 0; put < 20; ++put) {
    const auto done = put_files(**store, {test.made(fmt::format("y{}", put), "text")});
    ASSERT_TRUE(done.ok()) << done.error().message;
    EXPECT_EQ(done->chunks_to_repair, 0);
    num_tried = std::max(num_tried, folders.tried().size());
  }
  EXPECT_GT(num_tried, 3u);
}

}  // namespace
}  // namespace trireme
