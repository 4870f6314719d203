// Servers repair what is lost without a command, and let commands go first.

#include "store/background_repair.h"

#include <chrono>
#include <thread>

#include "base/clock.h"
#include "store/store_upkeep_fixture.h"

namespace trireme {
namespace {

class BackgroundRepairTest : public StoreUpkeep {
 protected:
  void start(size_t num_servers, const BackgroundRepairOptions& options) {
    repair_ = options;
    for (size_t server = 0; server < num_servers; ++server) start_process(server);
    const Status created = create();
    ASSERT_TRUE(created.ok()) << created.error().message;
    put("x", content_);
  }
  Overview overview() {
    auto store = open(StoreAccess::Read);
    const Result<Overview> overview = store.ok() ? (*store)->overview() : store.error();
    return overview.ok() ? *overview : Overview{};
  }
  bool is_whole() {
    auto store = open(StoreAccess::Read);
    return store.ok() && word_of(*health_of(**store)) == "healthy";
  }
  // Tells the metadata that a chunk is lost that is there.
  void lose_a_chunk() {
    auto store = open(StoreAccess::Write);
    const BlockRecord block = (*store)->ask({.kind = QuestionKind::Blocks})->blocks.front();
    ASSERT_TRUE(note_losses(**store, {{block.id, 0, block.servers[0], kNoServer}}).ok());
    EXPECT_EQ((*store)->overview()->num_incomplete, 1u);
  }
  void rest(double seconds) const {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
  const std::string content_ = random_bytes(1, 90'000);
};

TEST_F(BackgroundRepairTest, TheChunksOfAServerThatIsGoneComeBackOnOthers) {
  start(5, {.round_s = 0.2, .lost_server_s = 2.0});
  // Server 4 keeps metadata, too; server 2 returns later.
  ASSERT_GT(overview().chunks_of_server[2], 0);
  kill_process(processes_[2]);
  rest(1.0);
  EXPECT_GT(overview().chunks_of_server[2], 0);  // it may come back
  EXPECT_TRUE(comes_true([&] { return overview().chunks_of_server[2] == 0; }));
  EXPECT_EQ(overview().num_incomplete, 0u);
  kill_process(processes_[4]);
  {
    auto store = open(StoreAccess::Read);
    EXPECT_EQ(content_of(**store, "x").value(), content_);
  }
  start_process(2);
  start_process(4);
  EXPECT_TRUE(comes_true([&] { return is_whole(); }));
  expect_healthy("x", content_);
}

// The server was started without --join, and nobody calls a command.
TEST_F(BackgroundRepairTest, AnEmptyDiskBelowARunningServerIsTakenInAndFilled) {
  start(4, {.round_s = 0.2, .new_disk_s = 1.0});
  const int64_t before = overview().chunks_of_server[3];
  ASSERT_GT(before, 0);
  std::filesystem::rename(folder_of(3), root_ + "/gone");
  EXPECT_TRUE(comes_true([&] { return why_unusable(3) != ""; }));
  std::filesystem::create_directories(folder_of(3));
  EXPECT_TRUE(comes_true([&] { return incarnation_of(3) == 2 && is_whole(); }));
  expect_healthy("x", content_);
}

TEST_F(BackgroundRepairTest, ACommandThatMaintainsTheStoreGoesFirst) {
  start(4, {.round_s = 0.1});
  {
    auto command = open(StoreAccess::Maintain);
    ASSERT_TRUE(command.ok()) << command.error().message;
    lose_a_chunk();
    rest(2.0);
    EXPECT_EQ(overview().num_incomplete, 1u);
    MetadataCommand collect{.kind = CommandKind::Collect};
    collect.garbage.push_back({0, 1, 0});
    const Status status = (*command)->change(collect);
    EXPECT_TRUE(status.ok()) << status.error().message;
  }
  EXPECT_TRUE(comes_true([&] { return overview().num_incomplete == 0; }));
  expect_healthy("x", content_);
}

TEST_F(BackgroundRepairTest, ACommandThatWasKilledIsWaitedForNoLongerThanItsLease) {
  start(4, {.round_s = 0.1, .lease_s = 1.5});
  {
    auto store = open(StoreAccess::Write);
    MetadataCommand begin{.kind = CommandKind::Begin};
    begin.paths.emplace_back(kMaintainerPath);
    ASSERT_TRUE((*store)->command(begin).ok());  // it never renews its token
  }
  lose_a_chunk();
  rest(0.7);
  EXPECT_EQ(overview().num_incomplete, 1u);
  EXPECT_TRUE(comes_true([&] { return overview().num_incomplete == 0; }));
}

TEST_F(BackgroundRepairTest, KeepsItsRate) {
  start(4, {.round_s = 0.1, .bytes_per_s = 20'000});
  {
    auto store = open(StoreAccess::Write);
    std::vector<Move> moves;
    const Result<FileAnswer> all = (*store)->ask({.kind = QuestionKind::Blocks});
    ASSERT_TRUE(all.ok());
    for (const BlockRecord& block : all->blocks) {
      moves.push_back({block.id, 1, block.servers[1], kNoServer});
    }
    ASSERT_TRUE(note_losses(**store, moves).ok());
  }
  const int64_t bytes = int64_t(overview().num_incomplete) * 4096;
  const int64_t begin_ns = monotonic_ns();
  EXPECT_TRUE(comes_true([&] { return overview().num_incomplete == 0; }));
  // The last blocks are still under way when their bytes are counted.
  EXPECT_GT(double(monotonic_ns() - begin_ns) * 1e-9, double(bytes) / 20'000 / 2);
}

}  // namespace
}  // namespace trireme
