#include "raft/raft_server.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/clock.h"
#include "raft/journal_machine_fixture.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Servers on loopback, each with its own folder and threads.
class RaftServerTest : public testing::Test {
 protected:
  static constexpr int kMost = 4;

  void SetUp() override {
    folder_ = testing::TempDir() + "raft_server_" + std::to_string(::getpid());
    fs::remove_all(folder_);
    for (int id = 1; id <= kMost; ++id) {
      listeners_[id] = listen_at("127.0.0.1:0").value();
      addresses_[id] = own_address(listeners_[id]);
    }
    for (int id = 1; id <= 3; ++id) first_members_.servers.push_back({id, addresses_[id]});
  }
  void TearDown() override {
    for (auto& server : servers_) server.reset();
    fs::remove_all(folder_);
  }
  void start(int id, bool is_first = true, const std::string& secret = "secret") {
    if (!listeners_[id].is_open()) listeners_[id] = listen_at(addresses_[id]).value();
    machines_[id] = std::make_unique<JournalMachine>();
    RaftServerOptions options{.folder = folder_ + "/" + std::to_string(id), .secret = secret};
    options.raft = {.id = id, .first_members = is_first ? first_members_ : LogMembers(), .seed = 7};
    options.entries_per_snapshot = 40;
    options.log = [this](const std::string& sentence) {
      const std::lock_guard lock(mutex_);
      sentences_ += sentence + "\n";
    };
    auto server = RaftServer::open(options, std::move(listeners_[id]), *machines_[id]);
    ASSERT_TRUE(server.ok()) << server.error().message;
    servers_[id] = std::move(*server);
  }
  void stop(int id) { servers_[id].reset(); }
  int leader() {
    const Deadline deadline = Deadline::after(20);
    while (deadline.left_ms() > 0) {
      for (int id = 1; id <= kMost; ++id) {
        if (servers_[id] != nullptr && servers_[id]->standing().is_leader) return id;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    ADD_FAILURE() << "no server leads";
    return 1;
  }
  // Asks the servers that are up until one of them has done it.
  Result<AppliedAnswer> apply(const std::string& command) {
    const Deadline deadline = Deadline::after(20);
    while (deadline.left_ms() > 0) {
      for (int id = 1; id <= kMost; ++id) {
        if (servers_[id] == nullptr) continue;
        Result<AppliedAnswer> answer = servers_[id]->apply(command, Deadline::after(1));
        if (answer && answer->is_leader) return answer;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return Error{ErrorKind::Runtime, "no server has applied the command"};
  }
  // Waits until the servers have committed as much as the leader.
  void wait_for_equal(const std::vector<int>& ids) {
    const Deadline deadline = Deadline::after(20);
    // A caller may know of a commit before standing() does; an answered question has been applied.
    const int leading = leader();
    EXPECT_TRUE(servers_[leading]->query("", deadline).ok());
    const int64_t commit = servers_[leading]->standing().commit;
    const auto is_behind = [&](int id) { return servers_[id]->standing().commit < commit; };
    while (std::any_of(ids.begin(), ids.end(), is_behind) && deadline.left_ms() > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  std::string sentences() {
    const std::lock_guard lock(mutex_);
    return sentences_;
  }

  std::mutex mutex_;
  std::string sentences_;  // of the logs for an operator; guarded by mutex_
  std::string folder_;
  LogMembers first_members_;
  Socket listeners_[kMost + 1];
  std::string addresses_[kMost + 1];
  std::unique_ptr<JournalMachine> machines_[kMost + 1];
  std::unique_ptr<RaftServer> servers_[kMost + 1];
};

TEST_F(RaftServerTest, NothingAcknowledgedIsLostWhenTheLeaderStops) {
  for (int id = 1; id <= 3; ++id) start(id);
  std::set<std::string> acknowledged;
  int64_t gap_ns = 0;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 30; ++i) {
      const std::string command = std::to_string(round) + ":" + std::to_string(i);
      ASSERT_TRUE(apply(command).ok());
      acknowledged.insert(command);
    }
    const int former = leader();
    stop(former);
    const int64_t stopped_ns = monotonic_ns();
    const std::string command = "after stop " + std::to_string(round);
    ASSERT_TRUE(apply(command).ok());
    acknowledged.insert(command);
    gap_ns = std::max(gap_ns, monotonic_ns() - stopped_ns);
    start(former);
  }
  std::printf("longest gap after the leader stopped: %.2f s\n", double(gap_ns) * 1e-9);
  const Result<AppliedAnswer> length = servers_[leader()]->query("", Deadline::after(5));
  ASSERT_TRUE(length.ok());
  EXPECT_GE(std::stoull(length->bytes), acknowledged.size());
  wait_for_equal({1, 2, 3});
  for (int id = 1; id <= 3; ++id) stop(id);
  for (int id = 1; id <= 3; ++id) {
    const auto& lines = machines_[id]->lines();
    for (const std::string& command : acknowledged) {
      EXPECT_NE(std::find(lines.begin(), lines.end(), command), lines.end()) << id << command;
    }
    EXPECT_EQ(machines_[id]->snapshot(), machines_[1]->snapshot());
  }
}

// Runs a server in a process of its own, which writes "ID COMMAND" for each command that its own
// server has acknowledged.
pid_t start_process(int id, int acknowledged_fd, const std::function<CommandLog*()>& start) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // if the test itself is killed
  CommandLog* log = start();
  for (int i = 0; log != nullptr; ++i) {
    const std::string command = std::to_string(id) + ":" + std::to_string(i);
    const auto answer = log->apply(command, Deadline::after(2));
    if (!answer || !answer->is_leader) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      continue;
    }
    const std::string line = std::to_string(id) + " " + command + "\n";
    if (::write(acknowledged_fd, line.data(), line.size()) < 0) break;
  }
  ::_exit(1);
}

TEST_F(RaftServerTest, NothingAcknowledgedIsLostWhenTheProcessOfTheLeaderIsKilled) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::map<int, pid_t> processes;
  for (int id = 1; id <= 3; ++id) {
    processes[id] = start_process(id, ends[1], [&]() -> CommandLog* {
      start(id);
      return servers_[id].get();
    });
    listeners_[id] = Socket();
  }
  ::close(ends[1]);
  FILE* lines = ::fdopen(ends[0], "r");
  std::set<std::string> acknowledged;
  int64_t killed_ns = 0, gap_ns = 0;
  int killed = 0, id = 0, num_after = 0;
  char command[100];
  while (num_after < 50 && std::fscanf(lines, "%d %99s", &id, command) == 2) {
    acknowledged.insert(command);
    if (killed == 0 && acknowledged.size() == 100) {
      killed = id;
      ::kill(processes[id], SIGKILL);
      killed_ns = monotonic_ns();
    } else if (killed != 0 && id != killed && num_after++ == 0) {
      gap_ns = monotonic_ns() - killed_ns;
    }
  }
  for (const auto& [server, pid] : processes) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  while (std::fscanf(lines, "%d %99s", &id, command) == 2) acknowledged.insert(command);
  ::fclose(lines);
  std::printf("gap after the leader was killed: %.2f s\n", double(gap_ns) * 1e-9);
  EXPECT_EQ(num_after, 50);
  for (int server = 1; server <= 3; ++server) start(server);
  ASSERT_TRUE(apply("last").ok());
  wait_for_equal({1, 2, 3});
  for (int server = 1; server <= 3; ++server) {
    stop(server);
    const auto& kept = machines_[server]->lines();
    const std::set<std::string> all(kept.begin(), kept.end());
    EXPECT_TRUE(std::includes(all.begin(), all.end(), acknowledged.begin(), acknowledged.end()));
  }
}

TEST_F(RaftServerTest, OnlyTheLeaderAnswersAndTheOthersNameIt) {
  for (int id = 1; id <= 3; ++id) start(id);
  ASSERT_TRUE(apply("a").ok());
  const int leading = leader();
  wait_for_equal({1, 2, 3});
  for (int id = 1; id <= 3; ++id) {
    const Result<AppliedAnswer> answer = servers_[id]->query("", Deadline::after(5));
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_EQ(answer->is_leader, id == leading);
    EXPECT_EQ(answer->leader, id == leading ? "" : addresses_[leading]);
  }
  // One server of three is no majority: it neither answers nor applies.
  for (int id = 1; id <= 3; ++id) {
    if (id != leading) stop(id);
  }
  const Result<AppliedAnswer> alone = servers_[leading]->query("", Deadline::after(0.5));
  EXPECT_FALSE(alone.ok() && alone->is_leader);
}

TEST_F(RaftServerTest, ServerThatJoinsGetsTheStateAndAWrongSecretKeepsOut) {
  for (int id = 1; id <= 3; ++id) start(id);
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(apply(std::to_string(i)).ok());
  const int leading = leader();
  LogMembers members = first_members_;
  std::erase_if(members.servers,
                [&](const LogMember& member) { return member.id == leading % 3 + 1; });
  LogMembers four = first_members_;
  four.servers.push_back({4, addresses_[4]});
  start(4, false, "another secret");
  ASSERT_TRUE(servers_[leading]->change_members(four, Deadline::after(10)).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(servers_[4]->standing().commit, 0);
  stop(4);
  start(4, false);
  wait_for_equal({4});
  EXPECT_FALSE(servers_[leading]->change_members(members, Deadline::after(10)).ok());  // two steps
  EXPECT_EQ(servers_[4]->standing().members, four);
  stop(4);
  EXPECT_EQ(machines_[4]->lines().size(), 60u);
}

TEST_F(RaftServerTest, ServerThatIsAddedUnderALaterLeaderGetsTheLog) {
  for (int id = 1; id <= 3; ++id) start(id);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(apply(std::to_string(i)).ok());
  const int first = leader();
  stop(first);
  ASSERT_TRUE(apply("5").ok());
  start(first);
  start(4, false);
  LogMembers four = first_members_;
  four.servers.push_back({4, addresses_[4]});
  ASSERT_TRUE(servers_[leader()]->change_members(four, Deadline::after(5)).ok());
  ASSERT_TRUE(apply("6").ok());
  wait_for_equal({4});
  EXPECT_EQ(servers_[4]->standing().members, four);
  stop(4);
  EXPECT_EQ(machines_[4]->lines().size(), 7u);
}

TEST_F(RaftServerTest, LeaderThatIsRemovedAnswersItsCallerAndTheOthersGoOn) {
  for (int id = 1; id <= 3; ++id) start(id);
  ASSERT_TRUE(apply("0").ok());
  const int former = leader();
  LogMembers two = first_members_;
  std::erase_if(two.servers, [&](const LogMember& member) { return member.id == former; });
  const auto removed = servers_[former]->change_members(two, Deadline::after(5));
  ASSERT_TRUE(removed.ok()) << removed.error().message;
  EXPECT_TRUE(removed->is_leader);
  stop(former);
  ASSERT_TRUE(apply("1").ok());
  EXPECT_EQ(servers_[leader()]->standing().members, two);
}

TEST_F(RaftServerTest, ServerWhoseMachineFailsStepsDownAndSaysWhy) {
  for (int id = 1; id <= 3; ++id) start(id);
  ASSERT_TRUE(apply("0").ok());
  const int former = leader();
  machines_[former]->fail_at("1");
  const auto answer = servers_[former]->apply("1", Deadline::after(5));
  ASSERT_FALSE(answer.ok());
  EXPECT_NE(answer.error().message.find("this machine is broken"), std::string::npos);
  const Deadline deadline = Deadline::after(5);
  while (sentences().empty() && deadline.left_ms() > 0) std::this_thread::yield();
  EXPECT_NE(sentences().find("this machine is broken"), std::string::npos);
  ASSERT_TRUE(apply("2").ok());  // the others go on
  EXPECT_FALSE(servers_[former]->standing().is_leader);
  EXPECT_NE(leader(), former);
}

TEST_F(RaftServerTest, CallersOfOneServerShareWrites) {
  for (int id = 1; id <= 3; ++id) start(id);
  const int leading = leader();
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 10; ++i) {
        const std::string command = std::to_string(thread) + ":" + std::to_string(i);
        const auto applied = servers_[leading]->apply(command, Deadline::after(10));
        if (!applied || !applied->is_leader) ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Another server may have begun to lead on a busy machine; then callers are told so.
  if (servers_[leading]->standing().is_leader) {
    EXPECT_EQ(failed, 0);
  }
}

}  // namespace
}  // namespace trireme
