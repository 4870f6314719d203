// A drain that is refused or interrupted, and a server that is taken back.

#include <gtest/gtest.h>

#include "store/store_fixture.h"
#include "store/store_status.h"

namespace trireme {
namespace {

// No chunk can be written while it is on.
class FullDisks : public DiskFaults {
 public:
  Status before(DiskCall call, const std::string& path, size_t&) override {
    const bool is_chunk = path.find("/chunks/") != std::string::npos;
    if (is_on && is_chunk && call == DiskCall::Create) return damaged(path + ": no space left");
    return Done{};
  }
  std::atomic<bool> is_on = false;
};

class Drain : public testing::Test {
 protected:
  static int64_t waiting_after_put(TestStore& test, Store& store, const std::string& path) {
    const auto put = put_files(store, {test.made(path, random_bytes(7, 30'000))});
    EXPECT_TRUE(put.ok()) << put.error().message;
    return put->chunks_to_repair;
  }
  static ServerState state_of(Store& store, size_t server) {
    return store.overview()->servers[server].state;
  }
};

TEST_F(Drain, OneThatIsRefusedChangesNothing) {
  TestStore test({4, 2});
  auto store = test.open();
  EXPECT_EQ(waiting_after_put(test, **store, "x"), 0);
  const auto places = (*store)->ask({.kind = QuestionKind::Blocks})->blocks;
  const auto refused = drain_server(**store, "s3");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::Infeasible);
  EXPECT_EQ(state_of(**store, 3), ServerState::Active);
  EXPECT_EQ((*store)->ask({.kind = QuestionKind::Blocks})->blocks, places);
  EXPECT_EQ(waiting_after_put(test, **store, "y"), 0);
}

TEST_F(Drain, OneThatFailsLaterLeavesTheServerInUse) {
  FullDisks disks;
  TestStore test({2, 1}, 5, 4096, &disks);
  auto store = test.open();
  EXPECT_EQ(waiting_after_put(test, **store, "x"), 0);
  disks.is_on = true;
  EXPECT_FALSE(drain_server(**store, "s1").ok());
  EXPECT_EQ(state_of(**store, 1), ServerState::Active);
  disks.is_on = false;
  const auto stopped = drain_server(
      **store, "s1", [](const UpkeepProgress&) { return Status(usage("the user stops it")); });
  EXPECT_FALSE(stopped.ok());
  EXPECT_EQ(state_of(**store, 1), ServerState::Active);
  ASSERT_TRUE(drain_server(**store, "s1").ok());
  EXPECT_EQ(state_of(**store, 1), ServerState::Drained);
}

TEST_F(Drain, AServerIsTakenBack) {
  TestStore test({2, 1}, 4);
  auto store = test.open();
  EXPECT_EQ(waiting_after_put(test, **store, "x"), 0);
  EXPECT_FALSE(cancel_drain(**store, "s2").ok());  // it is active
  // As a drain leaves it whose process was killed, and one that has ended.
  MetadataCommand change{.kind = CommandKind::Server};
  change.servers.push_back((*store)->overview()->servers[2]);
  change.servers[0].state = ServerState::Draining;
  change.server_index = 2;
  ASSERT_TRUE((*store)->change(change).ok());
  ASSERT_TRUE(cancel_drain(**store, "s2").ok());
  EXPECT_EQ(state_of(**store, 2), ServerState::Active);
  ASSERT_TRUE(drain_server(**store, "s2").ok());
  const int64_t before = (*store)->overview()->chunks_of_server[2];
  EXPECT_EQ(before, 0);
  ASSERT_TRUE(cancel_drain(**store, "s2").ok());
  EXPECT_EQ(waiting_after_put(test, **store, "y"), 0);
  EXPECT_GT((*store)->overview()->chunks_of_server[2], 0);
  EXPECT_EQ(scrub_store(**store)->num_missing, 0);
}

}  // namespace
}  // namespace trireme
