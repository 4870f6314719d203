// What a store of servers does with damage, dead writers, and servers that join or fail while it is
// made.

#include <algorithm>
#include <chrono>
#include <thread>

#include "store/store_upkeep_fixture.h"

namespace trireme {
namespace {

// Only the server itself reads the chunk.
TEST_F(StoreUpkeep, AServerFindsDamageOfItsOwnChunksAndReportsIt) {
  scrub_ = {.disk_share = 0.5, .rest_s = 0.01};
  for (size_t server = 0; server < 4; ++server) start_here(server);
  ASSERT_TRUE(create().ok());
  const std::string content = random_bytes(1, 90'000);
  put("x", content);
  const auto chunks_to_repair = [&] {
    auto store = open(StoreAccess::Read);
    return store.ok() ? health_of(**store)->chunks_to_repair : -1;
  };
  EXPECT_EQ(chunks_to_repair(), 0);
  size_t num_damaged = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder_of(2) + "/chunks")) {
    if (!entry.is_regular_file() || ++num_damaged > 2) continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file.put('x').put('y').put('z');
  }
  ASSERT_GE(num_damaged, 2u);
  EXPECT_TRUE(comes_true([&] { return chunks_to_repair() == 2; })) << chunks_to_repair();
  {
    auto store = open(StoreAccess::Maintain);
    const auto repaired = repair(**store);
    ASSERT_TRUE(repaired.ok()) << repaired.error().message;
    EXPECT_EQ(repaired->num_repaired, 2);
  }
  // A server that read a file before the repair may report it behind the repair. Then the chunk is
  // repaired once more.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_TRUE(comes_true([&] {
    auto store = open(StoreAccess::Maintain);
    return store.ok() && repair(**store).ok() && chunks_to_repair() == 0;
  })) << chunks_to_repair();
  expect_healthy("x", content);
}

// After each read the disk is left alone, so that reads have their share of the time and no more.
TEST(BackgroundScrub, ReadsForNoMoreThanItsShareOfTheTime) {
  for (const double share : {0.01, 0.02, 0.5, 0.99}) {
    for (const double read_s : {0.001, 0.2}) {
      EXPECT_NEAR(read_s / (read_s + rest_after(read_s, share)), share, 1e-12);
    }
  }
}

TEST_F(StoreUpkeep, AScrubEndsTheTokensOfDeadWritersAndSparesThoseThatRenewThem) {
  for (size_t server = 0; server < 3; ++server) start_here(server);
  ASSERT_TRUE(create().ok());
  const std::string bytes = random_bytes(4, 100);
  const auto chunk = std::as_bytes(std::span(bytes));
  auto store = open(StoreAccess::Write);
  MetadataCommand begin{.kind = CommandKind::Begin};
  begin.paths = {"dead", "alive"};
  const auto tokens = (*store)->command(begin);
  ASSERT_TRUE(tokens.ok()) << tokens.error().message;
  for (const uint64_t token : *tokens) {
    ASSERT_TRUE((*store)->target(0)->write({block_id(token, 0), 0}, chunk, hash64(chunk)).ok());
  }
  MetadataCommand renew{.kind = CommandKind::Renew};
  renew.tokens = {tokens->back()};
  std::atomic<bool> is_over = false;
  std::thread writer([&] {
    while (!is_over) {
      EXPECT_TRUE((*store)->change(renew).ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  StoreOptions maintaining = options(StoreAccess::Maintain);
  maintaining.lease_s = 2.0;
  const auto totals = scrub(maintaining);
  is_over = true;
  writer.join();
  ASSERT_TRUE(totals.ok()) << totals.error().message;
  EXPECT_EQ(totals->num_orphans, 1);
  const auto names = (*store)->target(0)->list();
  ASSERT_EQ(names->size(), 1u);
  EXPECT_EQ(token_of_block(names->front().block), tokens->back());
  // A writer that was only slow cannot commit any more, and hears so when it renews its token.
  renew.tokens = {tokens->front()};
  const Status refused = (*store)->change(renew);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("put the files again"), std::string::npos);
}

TEST_F(StoreUpkeep, AFencedScrubDoesNotEndTheTokenOfANewerMaintainer) {
  for (size_t server = 0; server < 3; ++server) start_here(server);
  ASSERT_TRUE(create().ok());
  StoreOptions maintaining = options(StoreAccess::Maintain);
  maintaining.lease_s = 0.1;
  auto older = Store::open(file_, maintaining);
  ASSERT_TRUE(older.ok()) << older.error().message;
  auto newer = open(StoreAccess::Maintain);
  static_cast<void>(scrub_store(**older).ok());
  MetadataCommand collect{.kind = CommandKind::Collect};
  collect.garbage.push_back({0, 1, 0});
  const Status status = (*newer)->change(collect);
  EXPECT_TRUE(status.ok()) << status.error().message;
}

TEST_F(StoreUpkeep, ALongWriteRenewsItsTokens) {
  for (size_t server = 0; server < 3; ++server) start_here(server);
  ASSERT_TRUE(create().ok());
  StoreOptions writing = options(StoreAccess::Write);
  writing.lease_s = 0.0;  // each block is late
  auto store = Store::open(file_, writing);
  ASSERT_TRUE(store.ok()) << store.error().message;
  ASSERT_TRUE(put_files(**store, {made("x", random_bytes(3, 90'000))}).ok());
  std::string log;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_of(0) + "/log")) {
    std::stringstream part;
    if (entry.is_regular_file()) part << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    log += part.str();
  }
  MetadataCommand renew{.kind = CommandKind::Renew};
  renew.tokens = {1};
  const std::string packed = pack_command(renew);
  EXPECT_NE(log.find(packed.substr(packed.size() - 12)), std::string::npos);
}

TEST_F(StoreUpkeep, ACreationThatFailsHalfwayLeavesNothingBehind) {
  for (size_t server = 0; server < 4; ++server) start_here(server);
  const std::string obstacle = folder_of(2) + "/log.json";
  std::filesystem::create_directories(obstacle + "/full");
  const StoreFile before = file_;
  const Status failed = create();
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.error().message.find("log.json"), std::string::npos) << failed.error().message;
  EXPECT_EQ(failed.error().message.find("empty their folders"), std::string::npos);
  for (size_t server = 0; server < 4; ++server) {
    EXPECT_FALSE(std::filesystem::exists(folder_of(server) + "/store.json")) << server;
    EXPECT_FALSE(std::filesystem::exists(folder_of(server) + "/log")) << server;
  }
  std::filesystem::remove_all(obstacle);
  file_ = before;
  file_.id = 0x79;
  const Status created = create();
  ASSERT_TRUE(created.ok()) << created.error().message;
  // A server gives up no other store, and none that has chunks.
  EXPECT_TRUE(gives_up(3, file_.id + 1));
  EXPECT_EQ(why_unusable(3), "");
  put("x", "some bytes");
  auto store = open(StoreAccess::Read);
  for (size_t server = 0; server < 4; ++server) {
    if ((*store)->target(int(server))->list()->empty()) continue;
    EXPECT_FALSE(gives_up(server, file_.id)) << server;
  }
  expect_healthy("x", "some bytes");
}

TEST_F(StoreUpkeep, AServerThatGaveUpAStoreKeepsTheMetadataOfTheNextOne) {
  for (size_t server = 0; server < 4; ++server) start_here(server);
  ASSERT_TRUE(create().ok());
  // As long as a file cannot be removed, the folder belongs to the store.
  const std::string obstacle = folder_of(0) + "/epoch";
  std::filesystem::create_directories(obstacle + "/full");
  EXPECT_FALSE(gives_up(0, file_.id));
  EXPECT_TRUE(std::filesystem::exists(folder_of(0) + "/store.json"));
  std::filesystem::remove_all(obstacle);
  for (size_t server = 0; server < 4; ++server) EXPECT_TRUE(gives_up(server, file_.id)) << server;
  // Server 3 has kept none before.
  std::ranges::reverse(addresses_);
  file_ = {.id = 0x79, .name = "next", .code = {2, 1}};
  const Status created = create();
  ASSERT_TRUE(created.ok()) << created.error().message;
  EXPECT_TRUE(std::filesystem::exists(folder_of(3) + "/log"));
  // Without server 1, nothing is decided without server 3.
  servers_[1].reset();
  put("x", "some bytes");
}

TEST_F(StoreUpkeep, AServerWithoutMetadataStartsAgainWhileOthersHaveThePortOfItsLog) {
  for (size_t server = 0; server < 4; ++server) start_here(server);
  ASSERT_TRUE(create().ok());
  const std::string log_address = servers_[3]->description().log_address;
  servers_[3].reset();
  const auto taken = listen_at(log_address);
  ASSERT_TRUE(taken.ok()) << taken.error().message;
  start_here(3);
  put("x", "some bytes");
  expect_healthy("x", "some bytes");
}

// Server 3 keeps no metadata. Its own files are damaged all the same.
class DamagedServers : public StoreUpkeep {
 protected:
  void start_and_damage() {
    for (size_t server = 0; server < 4; ++server) start_here(server);
    ASSERT_TRUE(create().ok());
    put("x", "some bytes");
    for (const char* path : {"/d0/log.json", "/d2/log/log-1", "/d3/store.json"}) {
      std::fstream file(root_ + path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(60);
      file.put('#').put('#');
      ASSERT_TRUE(file.good()) << path;
    }
  }
  std::vector<std::string> problems() {
    auto store = open(StoreAccess::Read);
    const auto health = health_of(**store);
    std::vector<std::string> found;
    for (const ServerHealth& server : health->servers) found.push_back(server.metadata_problem);
    const bool has_problem =
        std::ranges::any_of(found, [](const std::string& problem) { return !problem.empty(); });
    EXPECT_EQ(word_of(*health), has_problem ? "degraded" : "healthy");
    return found;
  }
  void expect_good_after_a_restart() {
    EXPECT_EQ(problems(), std::vector<std::string>(4));
    for (size_t server = 0; server < 4; ++server) servers_[server].reset();
    for (size_t server = 0; server < 4; ++server) start_here(server);
    expect_healthy("x", "some bytes");
  }
};

TEST_F(DamagedServers, AreNamedByStatusAndMendedByAScrub) {
  start_and_damage();
  const std::vector<std::string> found = problems();
  EXPECT_EQ(found[0].find(root_ + "/d0/log.json"), 0u) << found[0];
  EXPECT_EQ(found[1], "");
  EXPECT_EQ(found[2].find(root_ + "/d2/log/log-1"), 0u) << found[2];
  EXPECT_EQ(found[3].find(root_ + "/d3/store.json"), 0u) << found[3];
  EXPECT_EQ(scrub()->num_mended_metadata, 3);
  expect_good_after_a_restart();
}

TEST_F(DamagedServers, MendThemselves) {
  scrub_ = {.disk_share = 0.5, .rest_s = 0.2};
  start_and_damage();
  EXPECT_TRUE(comes_true([&] { return problems() == std::vector<std::string>(4); }));
  expect_good_after_a_restart();
}

// Its votes are lost with its log, and its chunks are not.
TEST_F(DamagedServers, OneThatStartsWithADamagedLogServesItsChunksAndGetsItsPlaceBack) {
  for (size_t server = 0; server < 4; ++server) start_here(server);
  ASSERT_TRUE(create().ok());
  put("x", "some bytes");
  servers_[1].reset();
  {
    std::fstream file(root_ + "/d1/log/log-1", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(60);
    file.put('#').put('#');
  }
  start_here(1);
  EXPECT_EQ(why_unusable(1), "");
  const std::string problem = problems()[1];
  EXPECT_EQ(problem.find(root_ + "/d1/log/log-1"), 0u) << problem;
  EXPECT_NE(problem.find("replace-metadata s1 s1 test"), std::string::npos) << problem;
  put("y", "more bytes");
  {
    auto store = open(StoreAccess::Maintain);
    const auto replaced = (*store)->replace_log_server("s1", "s1");
    ASSERT_TRUE(replaced.ok()) << replaced.error().message;
  }
  EXPECT_EQ(problems(), std::vector<std::string>(4));
  // Servers 1 and 2 are a majority without server 0.
  servers_[0].reset();
  put("z", "other bytes");
  start_here(0);
  servers_[1].reset();
  start_here(1);
  expect_healthy("z", "other bytes");
}

TEST_F(StoreUpkeep, AFolderWithFilesOfSomebodyElseIsNotServed) {
  std::filesystem::create_directories(folder_of(0) + "/lost+found");
  start_here(0);
  servers_[0].reset();
  start_here(0);  // what a server has left is not of somebody else
  std::filesystem::create_directories(folder_of(1));
  std::ofstream(folder_of(1) + "/letter") << "of a stranger";
  const auto refused = StoreServer::open(options_of(1));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::Usage);
  EXPECT_NE(refused.error().message.find("it has letter"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_of(1) + "/lock"));
  // The file may come while the server waits for a store.
  std::filesystem::remove(folder_of(1) + "/letter");
  for (size_t server = 1; server < 3; ++server) start_here(server);
  std::ofstream(folder_of(1) + "/letter") << "of a stranger";
  const Status created = create();
  ASSERT_FALSE(created.ok());
  EXPECT_NE(created.error().message.find("it has letter"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_of(0) + "/store.json"));
}

TEST_F(StoreUpkeep, AnotherSecretIsRefusedWithWhatToDo) {
  for (size_t server = 0; server < 3; ++server) start_here(server);
  ASSERT_TRUE(create().ok());
  StoreOptions other = options(StoreAccess::Read);
  other.secret = "another secret";
  for (const std::string& refused :
       {Store::open(file_, other).error().message,
        find_shared_store(addresses_[0], "another secret").error().message}) {
    EXPECT_NE(refused.find("TRIREME_SECRET"), std::string::npos) << refused;
    EXPECT_EQ(refused.find("launcher"), std::string::npos) << refused;
  }
}

TEST_F(StoreUpkeep, ServersThatJoinAtOnceAllJoin) {
  for (size_t server = 0; server < 3; ++server) start_here(server);
  ASSERT_TRUE(create().ok());
  constexpr size_t kJoining = 6;
  std::vector<std::string> refusals(kJoining);
  std::vector<std::thread> threads;
  servers_.resize(3 + kJoining);
  for (size_t joining = 0; joining < kJoining; ++joining) {
    threads.emplace_back([&, joining] {
      auto started = StoreServer::open(options_of(3 + joining, addresses_[0]));
      if (started.ok()) {
        servers_[3 + joining] = std::move(*started);
      } else {
        refusals[joining] = started.error().message;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& refusal : refusals) EXPECT_EQ(refusal, "");
  auto store = open(StoreAccess::Read);
  const auto overview = (*store)->overview();
  EXPECT_EQ(overview->servers.size(), 3 + kJoining);
  for (int server = 0; server < int(overview->servers.size()); ++server) {
    EXPECT_NE((*store)->target(server), nullptr) << (*store)->why_unusable(server);
  }
}

}  // namespace
}  // namespace trireme
