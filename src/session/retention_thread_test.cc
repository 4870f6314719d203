#include "session/retention_thread.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "checkpoint/checkpoint_fixture.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

using RetentionThreadTest = FolderTest;

// Keeps all cores busy, so that a thread of low priority seldom runs.
class BusyCores {
 public:
  BusyCores() {
    for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) {
      threads_.emplace_back([this] {
        while (!should_stop_.load(std::memory_order_relaxed)) {
        }
      });
    }
  }
  ~BusyCores() {
    should_stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  BusyCores(const BusyCores&) = delete;
  BusyCores& operator=(const BusyCores&) = delete;

 private:
  std::atomic<bool> should_stop_ = false;
  std::vector<std::thread> threads_;
};

// Otherwise a run that saves often would fill its disk with checkpoints that it does not keep.
TEST_F(RetentionThreadTest, NoMoreThanTwoCheckpointsWaitForTheirRemoval) {
  RetentionThread retention({.keep = 1}, {});
  const BusyCores busy;
  for (int64_t step = 1; step <= 40; ++step) {
    const auto saved = SmallState(step).save(root(), {.keep = 0});
    ASSERT_TRUE(saved.ok()) << message_of(saved);
    retention.on_checkpoint({step, *saved, 0.0, std::nullopt});
    EXPECT_LE(std::distance(fs::directory_iterator(root()), {}), 3) << "after step " << step;
  }
  retention.finish();
  EXPECT_EQ(std::distance(fs::directory_iterator(root()), {}), 1);
}

}  // namespace
}  // namespace trireme
