#include "store/shared_store.h"

#include <thread>

#include "base/clock.h"
#include "store/shared_store_fixture.h"

namespace trireme {
namespace {

TEST_F(SharedStore, ProcessesThatAreKilledLoseNothingAndAnotherOneLeadsWithinTwoSeconds) {
  for (size_t server = 0; server < 4; ++server) start_process(server);
  const Status created = create();
  ASSERT_TRUE(created.ok()) << created.error().message;
  EXPECT_EQ(file_.servers.size(), 3u);
  const std::string first = random_bytes(1, 60'000), second = random_bytes(2, 60'000);
  {
    auto store = open(StoreAccess::Write);
    ASSERT_TRUE(store.ok()) << store.error().message;
    const auto put = put_files(**store, {made("a/first", first)});
    ASSERT_TRUE(put.ok()) << put.error().message;
    EXPECT_EQ(put->chunks_to_repair, 0);
  }
  const size_t leading = leader();
  kill_process(processes_[leading]);
  const int64_t killed_ns = monotonic_ns();
  {
    auto store = open(StoreAccess::Write);
    ASSERT_TRUE(store.ok()) << store.error().message;
    const double gap_s = double(monotonic_ns() - killed_ns) * 1e-9;
    std::printf("metadata answered %.2f s after their leader was killed\n", gap_s);
    EXPECT_LE(gap_s, 2.0);
    EXPECT_EQ(content_of(**store, "a/first").value(), first);
    const auto put = put_files(**store, {made("a/second", second)});
    ASSERT_TRUE(put.ok()) << put.error().message;
    EXPECT_EQ(word_of(*health_of(**store)), "degraded");
  }
  start_process(leading);
  {
    auto store = open(StoreAccess::Maintain);
    ASSERT_TRUE(store.ok()) << store.error().message;
    const auto scrubbed = scrub_store(**store);
    ASSERT_TRUE(scrubbed.ok()) << scrubbed.error().message;
    EXPECT_EQ(word_of(*health_of(**store)), "healthy");
  }
  kill_process(processes_[(leading + 1) % 4]);
  // Found through any server that runs, as --join does.
  const auto found = find_shared_store(addresses_[leading], "secret");
  ASSERT_TRUE(found.ok()) << found.error().message;
  auto store = Store::open(*found, options(StoreAccess::Read));
  ASSERT_TRUE(store.ok()) << store.error().message;
  EXPECT_EQ(content_of(**store, "a/first").value(), first);
  EXPECT_EQ(content_of(**store, "a/second").value(), second);
}

TEST_F(SharedStore, AServerThatDoesNotAnswerIsLeftOut) {
  for (size_t server = 0; server < 4; ++server) start_process(server);
  ASSERT_TRUE(create().ok());
  const std::string content = random_bytes(5, 6'000);
  auto store = open(StoreAccess::Write);
  ASSERT_TRUE(put_files(**store, {made("x", content)}).ok());
  store->reset();
  store = open(StoreAccess::Read);
  int64_t begin_ns = monotonic_ns();
  const auto seconds = [&] { return double(monotonic_ns() - begin_ns) * 1e-9; };
  ::kill(processes_[3], SIGSTOP);  // it keeps no metadata
  EXPECT_EQ(content_of(**store, "x").value(), content);
  store->reset();
  EXPECT_LT(seconds(), 6.0);
  begin_ns = monotonic_ns();
  store = open(StoreAccess::Write);
  ASSERT_TRUE(store.ok()) << store.error().message;
  EXPECT_NE((*store)->why_unusable(3), "");
  ASSERT_TRUE(put_files(**store, {made("y", content)}).ok());
  EXPECT_EQ(content_of(**store, "x").value(), content);
  EXPECT_LT(seconds(), 6.0);
}

TEST_F(SharedStore, NewServersAndNewDisksAreTakenInAndStrangersAreRefused) {
  for (size_t server = 0; server < 4; ++server) start_here(server);
  ASSERT_TRUE(create().ok());
  const std::string content = random_bytes(3, 90'000);
  {
    auto store = open(StoreAccess::Write);
    ASSERT_TRUE(put_files(**store, {made("x", content)}).ok());
  }
  start_here(4, addresses_[1]);  // a new server
  servers_[3].reset();
  std::filesystem::rename(folder_of(3), root_ + "/older");
  start_here(3, addresses_[0]);  // a new disk at the address of an old one
  {
    auto store = open(StoreAccess::Maintain);
    ASSERT_TRUE(store.ok()) << store.error().message;
    const auto overview = (*store)->overview();
    ASSERT_EQ(overview->servers.size(), 5u);
    EXPECT_EQ(overview->servers[3].incarnation, 2u);
    EXPECT_EQ(overview->servers[4].address, addresses_[4]);
    EXPECT_GT(overview->chunks_of_server[3] + overview->bytes_of_server[0], 0);
    const auto scrubbed = scrub_store(**store);
    ASSERT_TRUE(scrubbed.ok()) << scrubbed.error().message;
    EXPECT_GT(scrubbed->repaired.num_repaired, 0);
    EXPECT_EQ(word_of(*health_of(**store)), "healthy");
    const auto drained = drain_server(**store, "s3");
    ASSERT_TRUE(drained.ok()) << drained.error().message;
    EXPECT_GT((*store)->overview()->chunks_of_server[4], 0);
    EXPECT_EQ(content_of(**store, "x").value(), content);
  }
  EXPECT_FALSE(find_shared_store(addresses_[0], "another secret").ok());
  // A server of this store is not taken for one of another store, nor a disk for its successor.
  const auto peer = std::make_shared<StorePeer>(addresses_[3], secret_of_store("secret"));
  EXPECT_FALSE(RemoteChunks(peer, {file_.id + 1, 2, 0}).list().ok());
  EXPECT_FALSE(RemoteChunks(peer, {file_.id, 1, 0}).list().ok());
  EXPECT_TRUE(RemoteChunks(peer, {file_.id, 2, 0}).list().ok());
  StoreFile again{.id = 0x78, .name = "other", .code = {2, 1}};
  EXPECT_FALSE(create_shared_store(again, addresses_, {}, options(StoreAccess::Write)).ok());
  // The disk that was replaced is refused, and its successor stays in use.
  servers_[3].reset();
  std::filesystem::rename(folder_of(3), root_ + "/newer");
  std::filesystem::rename(root_ + "/older", folder_of(3));
  const auto older = StoreServer::open(options_of(3, addresses_[0]));
  ASSERT_FALSE(older.ok());
  EXPECT_NE(older.error().message.find("disk 2 is in use"), std::string::npos);
  EXPECT_EQ((*open(StoreAccess::Read))->overview()->servers[3].incarnation, 2u);
}

TEST_F(SharedStore, ANewerMaintainerFencesAnOlderOneAndAServerRemembersIt) {
  for (size_t server = 0; server < 3; ++server) start_here(server);
  ASSERT_TRUE(create().ok());
  const std::string bytes = random_bytes(4, 100);
  const auto chunk = std::as_bytes(std::span(bytes));
  auto older = open(StoreAccess::Maintain);
  ASSERT_TRUE((*older)->target(0)->write({1, 0}, chunk, hash64(chunk)).ok());
  auto newer = open(StoreAccess::Maintain);
  ASSERT_TRUE((*newer)->target(0)->write({2, 0}, chunk, hash64(chunk)).ok());
  MetadataCommand collect{.kind = CommandKind::Collect};
  collect.garbage.push_back({0, 1, 0});
  EXPECT_FALSE((*older)->change(collect).ok());
  EXPECT_TRUE((*newer)->change(collect).ok());
  for (int start = 0; start < 2; ++start) {
    const Status removed = (*older)->target(0)->remove({2, 0});
    ASSERT_FALSE(removed.ok());
    EXPECT_NE(removed.error().message.find("old epoch"), std::string::npos);
    EXPECT_EQ((*newer)->target(0)->list()->size(), 2u);
    servers_[0].reset();
    start_here(0);
  }
}

}  // namespace
}  // namespace trireme
