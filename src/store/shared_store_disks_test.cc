// What a store of servers does with lost disks and empty ones.

#include "store/store_upkeep_fixture.h"

namespace trireme {
namespace {

// Server 0 keeps metadata, server 3 does not.
TEST_F(StoreUpkeep, AScrubTakesInAnEmptyDiskBelowARunningServerAndFillsIt) {
  for (size_t server = 0; server < 4; ++server) start_process(server);
  ASSERT_TRUE(create().ok());
  const std::string content = random_bytes(1, 90'000);
  put("x", content);
  for (const size_t server : {3, 0}) {
    std::filesystem::rename(folder_of(server), root_ + "/away");
    EXPECT_TRUE(comes_true([&] { return why_unusable(server) != ""; }));
    // A disk that is mounted again counts as the same one, not as a new one.
    std::filesystem::rename(root_ + "/away", folder_of(server));
    EXPECT_TRUE(comes_true([&] { return why_unusable(server) == ""; })) << why_unusable(server);
    EXPECT_EQ(incarnation_of(server), 1u);
    std::filesystem::rename(folder_of(server), root_ + "/gone" + std::to_string(server));
    EXPECT_TRUE(comes_true([&] { return why_unusable(server) != ""; }));
    std::filesystem::create_directories(folder_of(server));
    EXPECT_TRUE(comes_true([&] { return is_empty_server(server); })) << why_unusable(server);
    EXPECT_EQ(incarnation_of(server), 1u);
    const auto totals = scrub();
    ASSERT_TRUE(totals.ok()) << totals.error().message;
    EXPECT_EQ(incarnation_of(server), 2u);
    EXPECT_GT(totals->repaired.num_repaired, 0);
    expect_healthy("x", content);
  }
  // The new disk of server 0 has no votes, so the others lead.
  EXPECT_FALSE(std::filesystem::exists(folder_of(0) + "/log"));
  EXPECT_NE(leader(), 0u);
}

// The folder below the mount point is there although its disk is not. So it is no new disk.
TEST_F(StoreUpkeep, AServerWaitsForItsDiskWhereOneWasMountedAndNoneIs) {
  const std::string mounted = root_ + "/mounted";
  std::filesystem::create_directories(mounted);
  mount_of_ = [mounted](const std::string& path) {
    return std::filesystem::exists(mounted) ? path : std::string("/");
  };
  for (size_t server = 0; server < 4; ++server) start_process(server);
  ASSERT_TRUE(create().ok());
  std::filesystem::remove(mounted);
  std::filesystem::rename(folder_of(3), root_ + "/away");
  std::filesystem::create_directories(folder_of(3));
  EXPECT_TRUE(comes_true([&] { return why_unusable(3).find("onnect") != std::string::npos; }))
      << why_unusable(3);
  // For longer than it takes to serve an empty folder, nothing serves this one.
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_FALSE(is_empty_server(3));
  std::filesystem::create_directories(mounted);
  EXPECT_TRUE(comes_true([&] { return is_empty_server(3); })) << why_unusable(3);
}

// An operator moves the folder away in order to mount its disk in its place.
TEST_F(StoreUpkeep, AnEmptyFolderBelowARunningServerDoesNotGiveUpAnOldDiskThatIsNeeded) {
  for (size_t server = 0; server < 4; ++server) start_process(server);
  ASSERT_TRUE(create().ok());
  const std::string content = random_bytes(1, 90'000);
  put("x", content);
  kill_process(processes_[3]);
  std::filesystem::rename(folder_of(0), root_ + "/away");
  std::filesystem::create_directories(folder_of(0));
  EXPECT_TRUE(comes_true([&] { return is_empty_server(0); })) << why_unusable(0);
  EXPECT_TRUE(scrub().ok());
  EXPECT_EQ(incarnation_of(0), 1u);
  EXPECT_TRUE(is_empty_server(0));
  // The old disk takes the place of the empty folder and is served, and never assigned anew.
  std::filesystem::rename(folder_of(0), root_ + "/empty");
  std::filesystem::rename(root_ + "/away", folder_of(0));
  EXPECT_TRUE(comes_true([&] { return why_unusable(0) == ""; })) << why_unusable(0);
  auto store = open(StoreAccess::Read);
  EXPECT_EQ(content_of(**store, "x").value(), content);
}

TEST_F(StoreUpkeep, AScrubTakesInEmptyServersAtKnownAddressesUnlessTheOldDisksAreNeeded) {
  for (size_t server = 0; server < 4; ++server) start_here(server);
  ASSERT_TRUE(create().ok());
  const std::string content = random_bytes(2, 90'000);
  put("x", content);
  const auto replace = [&](size_t server) {
    servers_[server].reset();
    std::filesystem::rename(folder_of(server), folder_of(server) + "-old");
    start_here(server);
  };
  replace(3);
  const auto totals = scrub();
  ASSERT_TRUE(totals.ok()) << totals.error().message;
  EXPECT_EQ(incarnation_of(3), 2u);
  expect_healthy("x", content);
  // The code bears the loss of one disk, and two are empty now.
  replace(2);
  std::filesystem::remove_all(folder_of(3) + "-old");
  replace(3);
  EXPECT_TRUE(scrub().ok());
  EXPECT_EQ(incarnation_of(2), 1u);
  EXPECT_EQ(incarnation_of(3), 2u);
  EXPECT_NE(why_unusable(2).find("--new-disk"), std::string::npos) << why_unusable(2);
  servers_[2].reset();
  std::filesystem::remove_all(folder_of(2));
  std::filesystem::rename(folder_of(2) + "-old", folder_of(2));
  start_here(2);
  EXPECT_TRUE(scrub().ok());
  expect_healthy("x", content);
  // With --new-disk, they are taken in all the same.
  replace(2);
  std::filesystem::remove_all(folder_of(3) + "-old");
  replace(3);
  StoreOptions taking = options(StoreAccess::Maintain);
  taking.takes_new_disks = true;
  const auto lost = scrub(taking);
  ASSERT_TRUE(lost.ok()) << lost.error().message;
  EXPECT_FALSE(lost->repaired.lost.empty());
  EXPECT_EQ(incarnation_of(2), 2u);
  EXPECT_EQ(incarnation_of(3), 4u);
  // Server 2 kept metadata, and has no votes on its new disk.
  EXPECT_FALSE(std::filesystem::exists(folder_of(2) + "/log"));
}

TEST_F(StoreUpkeep, AServerThatJoinsAgainWithAnEmptyDiskHasNoVotes) {
  for (size_t server = 0; server < 4; ++server) start_here(server);
  ASSERT_TRUE(create().ok());
  servers_[0].reset();
  std::filesystem::remove_all(folder_of(0));
  start_here(0, addresses_[1]);
  EXPECT_EQ(incarnation_of(0), 2u);
  EXPECT_FALSE(std::filesystem::exists(folder_of(0) + "/log"));
}

// Until it has ended, a server whose disk was exchanged must not make the new one look used.
TEST_F(StoreUpkeep, AServerWhoseDiskIsGoneSaysSoAndWritesNothing) {
  for (size_t server = 0; server < 4; ++server) start_here(server);
  ASSERT_TRUE(create().ok());
  auto store = open(StoreAccess::Write);
  ASSERT_NE((*store)->target(3), nullptr);
  std::filesystem::rename(folder_of(3), root_ + "/gone");
  std::filesystem::create_directories(folder_of(3));
  EXPECT_NE(why_unusable(3).find("its disk is gone"), std::string::npos) << why_unusable(3);
  const std::string bytes = random_bytes(4, 100);
  const auto chunk = std::as_bytes(std::span(bytes));
  EXPECT_FALSE((*store)->target(3)->write({1, 0}, chunk, hash64(chunk)).ok());
  EXPECT_TRUE(is_empty_folder(folder_of(3)));
}

TEST_F(StoreUpkeep, ADrainedServerWithANewDiskIsTakenInOnlyWhenThatIsAsked) {
  for (size_t server = 0; server < 4; ++server) start_here(server);
  ASSERT_TRUE(create().ok());
  put("x", "some bytes");
  {
    auto store = open(StoreAccess::Maintain);
    ASSERT_TRUE(drain_server(**store, "s3").ok());
  }
  servers_[3].reset();
  std::filesystem::remove_all(folder_of(3));
  start_here(3);
  EXPECT_TRUE(scrub().ok());
  EXPECT_EQ(incarnation_of(3), 1u);
  StoreOptions taking = options(StoreAccess::Maintain);
  taking.takes_new_disks = true;
  EXPECT_TRUE(scrub(taking).ok());
  EXPECT_EQ(incarnation_of(3), 2u);
  EXPECT_EQ((*open(StoreAccess::Read))->overview()->servers[3].state, ServerState::Active);
}

// Server 1 keeps metadata, server 3 does not. Both were started as an operator starts them who
// wants no further work with a new disk.
TEST_F(StoreUpkeep, AServerThatJoinedTakesAnEmptyDiskInByItselfOnceTheOldOneIsNotNeeded) {
  for (size_t server = 0; server < 4; ++server) start_process(server);
  ASSERT_TRUE(create().ok());
  const std::string content = random_bytes(5, 90'000);
  put("x", content);
  for (const size_t server : {1, 3}) {
    kill_process(processes_[server]);
    start_process(server, addresses_[0]);
    EXPECT_EQ(incarnation_of(server), 1u);
  }
  const auto replace = [&](size_t server, const std::string& away) {
    std::filesystem::rename(folder_of(server), root_ + away);
    EXPECT_TRUE(comes_true([&] { return why_unusable(server) != ""; }));
    std::filesystem::create_directories(folder_of(server));
  };
  const auto repair_all = [&] {
    auto store = open(StoreAccess::Maintain);
    ASSERT_TRUE(store.ok()) << store.error().message;
    const auto repaired = repair(**store);
    ASSERT_TRUE(repaired.ok()) << repaired.error().message;
    EXPECT_GT(repaired->num_repaired, 0);
  };
  // Without server 1, some blocks cannot be read without the old disk of server 3.
  kill_process(processes_[1]);
  replace(3, "/away3");
  EXPECT_TRUE(comes_true([&] { return is_empty_server(3); })) << why_unusable(3);
  // For longer than an attempt to take the disk in waits for the next one, nothing takes it in.
  std::this_thread::sleep_for(std::chrono::milliseconds(4000));
  EXPECT_EQ(incarnation_of(3), 1u);
  EXPECT_TRUE(is_empty_server(3));
  start_process(1, addresses_[0]);
  EXPECT_TRUE(comes_true([&] { return incarnation_of(3) == 2 && why_unusable(3) == ""; }))
      << why_unusable(3);
  repair_all();
  expect_healthy("x", content);
  // The new disk of server 1 has no votes, so servers 0 and 2 are needed from now on.
  replace(1, "/away1");
  EXPECT_TRUE(comes_true([&] { return incarnation_of(1) == 2 && why_unusable(1) == ""; }))
      << why_unusable(1);
  EXPECT_FALSE(std::filesystem::exists(folder_of(1) + "/log"));
  repair_all();
  expect_healthy("x", content);
}

TEST_F(StoreUpkeep, AnEmptyFolderJoinsAndTheFolderOfAnotherStoreIsRefusedWithWhatToDo) {
  for (size_t server = 0; server < 3; ++server) start_here(server);
  ASSERT_TRUE(create().ok());
  start_process(3, addresses_[0]);
  EXPECT_EQ(why_unusable(3), "");
  // Servers 4 to 6 are another store.
  for (size_t server = 4; server < 7; ++server) start_here(server);
  StoreFile other{.id = 0x99, .name = "other", .code = {2, 1}};
  const std::vector<std::string> others(addresses_.begin() + 4, addresses_.end());
  ASSERT_TRUE(create_shared_store(other, others, {}, options(StoreAccess::Write)).ok());
  servers_[6].reset();
  const auto refused = StoreServer::open(options_of(6, addresses_[0]));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::Usage);
  for (const char* const word : {"the store other", "the store test", "empty the folder"}) {
    EXPECT_NE(refused.error().message.find(word), std::string::npos) << refused.error().message;
  }
  start_here(6);  // it still serves its own store
  EXPECT_EQ(servers_[6]->description().identity.store, other.id);
}

}  // namespace
}  // namespace trireme
