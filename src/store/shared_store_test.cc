#include "store/shared_store.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "base/clock.h"
#include "store/remote_chunks.h"
#include "store/store_fixture.h"
#include "store/store_server.h"
#include "store/store_status.h"

namespace trireme {
namespace {

// Servers of chunks on loopback, in this process or in processes of their own.
class SharedStore : public testing::Test {
 protected:
  void SetUp() override {
    const bool has_memory = std::filesystem::exists("/dev/shm");
    root_ = (has_memory ? std::string("/dev/shm") : testing::TempDir()) + "/trireme-shared-" +
            std::to_string(getpid());
    std::filesystem::remove_all(root_);
    file_ = {.id = 0x77, .name = "test", .code = {2, 1}};
  }
  void TearDown() override {
    for (pid_t& pid : processes_) kill_process(pid);
    servers_.clear();
    std::filesystem::remove_all(root_);
  }

  std::string folder_of(size_t server) const { return root_ + "/d" + std::to_string(server); }
  StoreServerOptions options_of(size_t server, const std::string& join = "") const {
    std::filesystem::create_directories(folder_of(server));
    StoreServerOptions options{.folder = folder_of(server), .secret = "secret", .join = join};
    if (server < addresses_.size()) options.listen = addresses_[server];
    return options;
  }
  void start_here(size_t server, const std::string& join = "") {
    auto started = StoreServer::open(options_of(server, join));
    ASSERT_TRUE(started.ok()) << started.error().message;
    if (servers_.size() <= server) servers_.resize(server + 1);
    if (addresses_.size() <= server) addresses_.resize(server + 1);
    servers_[server] = std::move(*started);
    addresses_[server] = servers_[server]->address();
  }
  // The process tells its address through a pipe.
  void start_process(size_t server) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      auto started = StoreServer::open(options_of(server));
      const std::string address = started.ok() ? (*started)->address() : "";
      if (::write(ends[1], address.data(), address.size()) < 0) ::_exit(1);
      ::close(ends[1]);
      for (;;) ::pause();
    }
    ::close(ends[1]);
    std::string address(100, '\0');
    const ssize_t bytes = ::read(ends[0], address.data(), address.size());
    ::close(ends[0]);
    ASSERT_GT(bytes, 0) << "server " << server << " does not start";
    if (processes_.size() <= server) processes_.resize(server + 1);
    if (addresses_.size() <= server) addresses_.resize(server + 1);
    processes_[server] = pid;
    addresses_[server] = address.substr(0, size_t(bytes));
  }
  static void kill_process(pid_t& pid) {
    if (pid <= 0) return;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    pid = 0;
  }

  Status create() {
    return create_shared_store(file_, addresses_, {}, options(StoreAccess::Write));
  }
  static StoreOptions options(StoreAccess access) {
    return {.access = access, .secret = "secret", .most_chunk_bytes = 4096, .straggler_s = 0.2};
  }
  Result<std::unique_ptr<Store>> open(StoreAccess access) {
    return Store::open(file_, options(access));
  }
  FileToPut made(const std::string& path, const std::string& content) const {
    const std::string from = root_ + "/source-" + hex64(hash64(path));
    std::ofstream(from, std::ios::binary) << content;
    return {from, path};
  }
  // Returns the server that leads the log of the metadata.
  size_t leader() const {
    const Deadline deadline = Deadline::after(10);
    while (deadline.left_ms() > 0) {
      for (size_t server = 0; server < file_.servers.size(); ++server) {
        StorePeer peer(addresses_[server], secret_of_store("secret"));
        const auto reply = peer.ask({.op = StoreOp::Query,
                                     .store = file_.id,
                                     .text = pack_question({.kind = QuestionKind::Overview})},
                                    1.0);
        if (reply.ok() && reply->is_leader) return server;
      }
    }
    ADD_FAILURE() << "no server leads";
    return 0;
  }

  std::string root_;
  StoreFile file_;
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<StoreServer>> servers_;
  std::vector<pid_t> processes_;
};

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
