// A server takes the place of another one that keeps the metadata, while files are put.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "store/shared_store_fixture.h"

namespace trireme {
namespace {

class ReplaceLogServer : public SharedStore {
 protected:
  void SetUp() override {
    SharedStore::SetUp();
    for (size_t server = 0; server < 4; ++server) start_here(server);
    ASSERT_TRUE(create().ok());
    start_here(4, addresses_[1]);  // so that three of five servers keep the metadata
  }

  Result<ReplacedLogServer> replace(const std::string& old, const std::string& fresh) {
    TRIREME_TRY(store, open(StoreAccess::Maintain));
    return store->replace_log_server(old, fresh);
  }
  // Puts files until it is over. What was acknowledged must be read back.
  void put_until_over() {
    while (!is_over_) {
      const int number = num_tried_++;
      const std::string path = fmt::format("f{}", number);
      const std::string content = random_bytes(uint64_t(number), 3000);
      auto store = open(StoreAccess::Write);
      if (!store.ok() || !put_files(**store, {made(path, content)}).ok()) continue;
      acknowledged_[path] = content;
      ++num_acknowledged_;
    }
  }
  void put_some_more() const {
    const int before = num_acknowledged_;
    const Deadline deadline = Deadline::after(30);
    while (num_acknowledged_ < before + 3 && deadline.left_ms() > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_GE(num_acknowledged_, before + 3);
  }
  void lose(size_t server) {
    servers_[server].reset();
    std::filesystem::remove_all(folder_of(server));
  }
  void expect_everything() {
    auto store = open(StoreAccess::Read);
    ASSERT_TRUE(store.ok()) << store.error().message;
    EXPECT_FALSE(acknowledged_.empty());
    for (const auto& [path, content] : acknowledged_) {
      const auto found = content_of(**store, path);
      ASSERT_TRUE(found.ok()) << found.error().message;
      EXPECT_EQ(*found, content) << path;
    }
  }
  static std::vector<std::string> addresses_in(const std::vector<LogServer>& servers) {
    std::vector<std::string> addresses;
    for (const LogServer& server : servers) addresses.push_back(server.address);
    std::ranges::sort(addresses);
    return addresses;
  }
  std::vector<std::string> sorted_addresses(std::vector<size_t> servers) const {
    std::vector<std::string> addresses;
    for (const size_t server : servers) addresses.push_back(addresses_[server]);
    std::ranges::sort(addresses);
    return addresses;
  }

  std::atomic<bool> is_over_ = false;
  std::atomic<int> num_acknowledged_ = 0;
  int num_tried_ = 0;
  std::map<std::string, std::string> acknowledged_;
};

TEST_F(ReplaceLogServer, ALostServerIsReplacedByAnotherOneWhileFilesArePut) {
  std::thread writer([&] { put_until_over(); });
  put_some_more();
  lose(0);
  put_some_more();
  const auto replaced = replace("s0", addresses_[3]);
  put_some_more();
  ASSERT_TRUE(replaced.ok()) << replaced.error().message;
  EXPECT_EQ(addresses_in(replaced->servers), sorted_addresses({1, 2, 3}));
  EXPECT_EQ(replaced->not_told, std::vector<std::string>{addresses_[0]});
  EXPECT_TRUE(std::filesystem::exists(folder_of(3) + "/log"));
  // The chunks of server 0 are written again before another server is lost.
  StoreOptions maintaining = options(StoreAccess::Maintain);
  maintaining.lease_s = 0.2;
  {
    auto store = Store::open(file_, maintaining);
    ASSERT_TRUE(drain_server(**store, "s0").ok());
  }
  put_some_more();
  // Only two of the servers are left that kept the metadata at first. Without the new server they
  // are no majority if one of them is lost, too. The client still has the old list.
  servers_[1].reset();
  put_some_more();
  is_over_ = true;
  writer.join();
  expect_everything();
  // The servers remember their places when they are started again.
  for (const size_t server : {1, 2, 3}) {
    servers_[server].reset();
    start_here(server);
  }
  expect_everything();
  EXPECT_EQ(addresses_in(servers_[2]->description().log_servers), sorted_addresses({1, 2, 3}));
}

TEST_F(ReplaceLogServer, AServerWithANewDiskGetsItsOwnPlaceBack) {
  std::thread writer([&] { put_until_over(); });
  put_some_more();
  lose(0);
  start_here(0, addresses_[1]);
  EXPECT_FALSE(std::filesystem::exists(folder_of(0) + "/log"));
  const auto replaced = replace("s0", "s0");
  put_some_more();
  is_over_ = true;
  writer.join();
  ASSERT_TRUE(replaced.ok()) << replaced.error().message;
  EXPECT_EQ(addresses_in(replaced->servers), sorted_addresses({0, 1, 2}));
  EXPECT_EQ(replaced->not_told, std::vector<std::string>());
  // The same command once more changes nothing.
  const auto again = replace("s0", "s0");
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->servers, replaced->servers);
  ASSERT_TRUE(scrub_store(**open(StoreAccess::Maintain)).ok());
  servers_[2].reset();
  expect_everything();
}

TEST_F(ReplaceLogServer, AServerThatRunsGivesItsPlaceAway) {
  acknowledged_["x"] = random_bytes(1, 9000);
  ASSERT_TRUE(put_files(**open(StoreAccess::Write), {made("x", acknowledged_["x"])}).ok());
  const size_t leading = leader();
  const auto refused = replace("s3", addresses_[4]);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("keeps no metadata"), std::string::npos)
      << refused.error().message;
  EXPECT_FALSE(replace("s0", "s1").ok());
  const std::string name = fmt::format("s{}", leading);
  const auto replaced = replace(name, "s3");
  ASSERT_TRUE(replaced.ok()) << replaced.error().message;
  EXPECT_EQ(replaced->servers.size(), 3u);
  EXPECT_FALSE(keeps_metadata(servers_[leading]->description()));
  EXPECT_TRUE(keeps_metadata(servers_[3]->description()));
  expect_everything();
}

// Five servers, of which two have lost their disks and joined again with empty ones.
TEST_F(SharedStore, TwoServersWithNewDisksGetTheirOwnPlacesBackOneAfterTheOther) {
  file_.code = {2, 2};
  for (size_t server = 0; server < 5; ++server) start_here(server);
  ASSERT_TRUE(create().ok());
  for (const size_t lost : {0, 1}) {
    servers_[lost].reset();
    std::filesystem::remove_all(folder_of(lost));
  }
  for (const size_t lost : {0, 1}) start_here(lost, addresses_[2]);
  const auto replace = [&](const std::string& old,
                           const std::string& fresh) -> Result<ReplacedLogServer> {
    TRIREME_TRY(store, open(StoreAccess::Maintain));
    return store->replace_log_server(old, fresh);
  };
  const auto refused = replace("s2", "s1");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find(
                fmt::format("run replace-metadata {} {} first", addresses_[1], addresses_[1])),
            std::string::npos)
      << refused.error().message;
  for (const size_t lost : {0, 1}) {
    EXPECT_FALSE(keeps_metadata(servers_[lost]->description())) << lost;
    const std::string name = fmt::format("s{}", lost);
    const auto replaced = replace(name, name);
    ASSERT_TRUE(replaced.ok()) << replaced.error().message;
    EXPECT_EQ(replaced->servers.size(), 5u);
    EXPECT_TRUE(keeps_metadata(servers_[lost]->description())) << lost;
  }
  // Two more may be lost.
  servers_[3].reset();
  servers_[4].reset();
  EXPECT_LT(leader(), 3u);
}

}  // namespace
}  // namespace trireme
