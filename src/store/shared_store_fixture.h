#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "store/remote_chunks.h"
#include "store/serve_disk.h"
#include "store/shared_store.h"
#include "store/store_fixture.h"
#include "store/store_server.h"
#include "store/store_status.h"

namespace trireme {

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

  // An address of loopback that no other test listens at. Otherwise another one may be given the
  // port of a server that is down and starts again.
  static std::string own_host() {
    const int process = getpid();
    return fmt::format("127.{}.{}.{}", 1 + process / 65025 % 254, 1 + process / 255 % 255,
                       process % 255);
  }
  std::string folder_of(size_t server) const { return root_ + "/d" + std::to_string(server); }
  // Is called in the process of a server before it serves.
  virtual void in_process(size_t server) { static_cast<void>(server); }
  virtual StoreServerOptions options_of(size_t server, const std::string& join = "") const {
    std::filesystem::create_directories(folder_of(server));
    StoreServerOptions options{.folder = folder_of(server),
                               .listen = own_host() + ":0",
                               .secret = "secret",
                               .join = join,
                               .log_listen = own_host() + ":0"};
    options.scrub = scrub_;
    options.repair = repair_;
    options.faults = faults_;
    if (mount_of_) options.mount_of = mount_of_;
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
  // Serves the folder as `trireme store serve` does. The process tells its address through a pipe.
  void start_process(size_t server, const std::string& join = "") {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const StoreServerOptions serving = options_of(server, join);
      in_process(server);
      const auto tell = [&](const std::string& address) {
        if (ends[1] < 0) return;
        if (::write(ends[1], address.data(), address.size()) < 0) ::_exit(1);
        ::close(std::exchange(ends[1], -1));
      };
      const Status served = serve_disk(
          serving, [] { return false; }, tell);
      ::_exit(served.ok() ? 0 : 1);
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
  std::function<std::string(const std::string&)> mount_of_;  // empty: that of the server
  BackgroundScrubOptions scrub_;
  BackgroundRepairOptions repair_;
  DiskFaults* faults_ = nullptr;  // of servers that start from now on
  StoreFile file_;
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<StoreServer>> servers_;
  std::vector<pid_t> processes_;
};

}  // namespace trireme
