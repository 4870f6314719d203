#include "coord/coord.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/file.h"
#include "comm/fabric.h"
#include "coord/base64.h"
#include "coord/etcd_coord.h"
#include "coord/etcd_fixture.h"
#include "coord/file_coord.h"
#include "coord/http_answer.h"
#include "coord/membership_agent.h"
#include "coord/write_fence.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

Deadline coord_deadline() { return Deadline::after(10.0); }

void sleep_s(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

std::string coord_folder(const std::string& name) {
  return testing::TempDir() + "coord_" + name + std::to_string(::getpid());
}

// The laws that every kind of Coord obeys.
class CoordLaws : public testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() { etcd().reset(); }
  static void TearDownTestSuite() { etcd().reset(); }

  void SetUp() override {
    folder_ = coord_folder("laws");
    where_ = "file:" + folder_;
    if (GetParam() == "etcd") {
      if (!etcd()) {
        etcd() = std::make_unique<EtcdServer>();
        has_etcd() = etcd()->start();
      }
      if (!has_etcd()) GTEST_SKIP() << "etcd is missing: tools/install_packages.sh test";
      where_ = "etcd:" + etcd()->address();
    }
    coord_ = open();
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Opens the store for one more user, in a job named after the test.
  std::unique_ptr<Coord> open() const {
    auto opened = open_coord(where_, testing::UnitTest::GetInstance()->current_test_info()->name());
    EXPECT_TRUE(opened.ok());
    return std::move(opened).value();
  }
  CoordSwap swap(const CoordWrite& write) const {
    auto swapped = coord_->compare_and_swap(write, coord_deadline());
    EXPECT_TRUE(swapped.ok()) << swapped.error().message;
    return swapped.ok() ? *swapped : CoordSwap{};
  }
  CoordEntry get(const std::string& key) const {
    auto entry = coord_->get(key, coord_deadline());
    EXPECT_TRUE(entry.ok()) << entry.error().message;
    return entry.ok() ? *entry : CoordEntry{};
  }

  std::string folder_, where_;
  std::unique_ptr<Coord> coord_;

 private:
  static std::unique_ptr<EtcdServer>& etcd() {
    static std::unique_ptr<EtcdServer> server;
    return server;
  }
  static bool& has_etcd() {
    static bool has = false;
    return has;
  }
};

TEST_P(CoordLaws, AKeyIsWrittenOnlyOverTheExpectedVersion) {
  EXPECT_EQ(get("a"), (CoordEntry{.key = "a"}));
  EXPECT_FALSE(swap({.key = "a", .value = "1", .expected_version = 7}).is_written);
  const CoordSwap first = swap({.key = "a", .value = "1"});
  EXPECT_TRUE(first.is_written);
  EXPECT_EQ(first.entry, get("a"));
  EXPECT_EQ(first.entry.value, "1");
  const CoordSwap refused = swap({.key = "a", .value = "2"});
  EXPECT_FALSE(refused.is_written);
  EXPECT_EQ(refused.entry, first.entry);
  const CoordSwap second =
      swap({.key = "a", .value = "3", .expected_version = first.entry.version});
  EXPECT_TRUE(second.is_written);
  EXPECT_GT(second.entry.version, first.entry.version);
  EXPECT_EQ(open()->get("a", coord_deadline()).value(), second.entry);
}

TEST_P(CoordLaws, AVersionIsNotUsedAgainAfterAKeyWasRemoved) {
  const int64_t first = swap({.key = "a", .value = "1"}).entry.version;
  const CoordSwap removed = swap({.key = "a", .expected_version = first});
  EXPECT_TRUE(removed.is_written);
  EXPECT_EQ(removed.entry.version, 0);
  EXPECT_EQ(get("a").version, 0);
  EXPECT_FALSE(swap({.key = "a", .value = "2", .expected_version = first}).is_written);
  EXPECT_GT(swap({.key = "a", .value = "2"}).entry.version, first);
}

TEST_P(CoordLaws, AListHasTheKeysOfThePrefixInOrder) {
  for (const char* key : {"agents/b", "agents/a", "leader", "agents/c/d", "agent"}) {
    swap({.key = key, .value = std::string("of \"") + key + "\"\n\xc3\xa4"});
  }
  const std::vector<CoordEntry> listed = coord_->list("agents/", coord_deadline()).value();
  ASSERT_EQ(listed.size(), 3u);
  EXPECT_EQ(listed[0], get("agents/a"));
  EXPECT_EQ(listed[1], get("agents/b"));
  EXPECT_EQ(listed[2].value, "of \"agents/c/d\"\n\xc3\xa4");
  EXPECT_EQ(coord_->list("", coord_deadline())->size(), 5u);
}

TEST_P(CoordLaws, AKeyLivesAsLongAsItsLeaseIsRenewed) {
  constexpr double lease_s = 1.0;  // etcd has none that is shorter, and a busy machine keeps it
  const LeaseId lease = coord_->grant(lease_s, coord_deadline()).value();
  const LeaseId other = coord_->grant(100.0, coord_deadline()).value();
  EXPECT_TRUE(swap({.key = "bound", .value = "1", .lease = lease}).is_written);
  EXPECT_TRUE(swap({.key = "revoked", .value = "1", .lease = other}).is_written);
  EXPECT_TRUE(swap({.key = "free", .value = "1"}).is_written);
  EXPECT_EQ(get("bound").lease, lease);
  for (int k = 0; k < 3; ++k) {
    sleep_s(0.4 * lease_s);
    EXPECT_TRUE(coord_->keep_alive(lease, coord_deadline()).value());
    EXPECT_GT(get("bound").version, 0);
  }
  EXPECT_TRUE(coord_->revoke(other, coord_deadline()).ok());
  EXPECT_EQ(get("revoked").version, 0);
  EXPECT_FALSE(coord_->keep_alive(other, coord_deadline()).value());
  EXPECT_TRUE(coord_->revoke(other, coord_deadline()).ok());

  const int64_t bound = get("bound").version;
  EXPECT_EQ(wait_for_change(*coord_, "bound", bound, coord_deadline())->version, 0);
  EXPECT_FALSE(coord_->keep_alive(lease, coord_deadline()).value());
  EXPECT_GT(get("free").version, 0);
  const auto late =
      coord_->compare_and_swap({.key = "late", .value = "1", .lease = lease}, coord_deadline());
  EXPECT_FALSE(late.ok());
  EXPECT_EQ(get("late").version, 0);
}

// Processes count up one number. Every increment is there in the end.
TEST_P(CoordLaws, ProcessesLoseNoUpdate) {
  constexpr int kProcesses = 3, kIncrements = 20;
  std::vector<pid_t> processes;
  for (int k = 0; k < kProcesses; ++k) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int done = 0; done < kIncrements;) {
        const CoordEntry entry = get("n");
        const int next = 1 + (entry.version == 0 ? 0 : std::stoi(entry.value));
        const CoordWrite write{
            .key = "n", .value = std::to_string(next), .expected_version = entry.version};
        if (swap(write).is_written) ++done;
      }
      ::_exit(0);
    }
    processes.push_back(child);
  }
  for (const pid_t child : processes) ::waitpid(child, nullptr, 0);
  EXPECT_EQ(get("n").value, std::to_string(kProcesses * kIncrements));
}

TEST_P(CoordLaws, ACallAsDataIsTheCall) {
  using Kind = CoordCall::Kind;
  const auto call = [&](const CoordCall& asked) {
    return perform(*coord_, asked, coord_deadline()).value();
  };
  const LeaseId lease = call({.kind = Kind::Grant, .seconds = 50.0}).lease;
  EXPECT_TRUE(call({.kind = Kind::KeepAlive, .lease = lease}).is_done);
  const CoordWrite write{.key = "a", .value = "1", .lease = lease};
  EXPECT_TRUE(call({.kind = Kind::CompareAndSwap, .write = write}).is_done);
  const CoordReply refused = call({.kind = Kind::CompareAndSwap, .write = write});
  EXPECT_FALSE(refused.is_done);
  EXPECT_EQ(refused.entries, call({.kind = Kind::List}).entries);
  EXPECT_TRUE(call({.kind = Kind::Revoke, .lease = lease}).is_done);
  EXPECT_FALSE(call({.kind = Kind::KeepAlive, .lease = lease}).is_done);
  EXPECT_TRUE(call({.kind = Kind::List}).entries.empty());
}

// Agents of the membership protocol on real stores, with a real fence. Time is virtual, and leases
// are too long to end.
class JobOnCoord {
 public:
  JobOnCoord(const std::function<std::unique_ptr<Coord>()>& open, const std::string& folder)
      : fence_(folder + "/run") {
    for (const char* name : {"a", "b", "c"}) {
      agents_.try_emplace(name,
                          MembershipOptions{.agent = name, .num_expected = 3, .lease_s = 60.0},
                          std::vector<SavedStep>{});
      coords_[name] = open();
    }
  }

  // Lets time pass until all agents run this epoch. Returns false if they do not within a lease.
  bool reach(int64_t epoch) {
    for (const double end_s = now_s_ + 60.0; now_s_ < end_s; now_s_ += 10.0) {
      for (auto& [name, agent] : agents_) follow(name, agent.on_tick(now_s_));
      const auto runs = [&](const auto& agent) { return agent.second.running_epoch() == epoch; };
      if (std::all_of(agents_.begin(), agents_.end(), runs)) return true;
    }
    return false;
  }
  void fail_ranks(const std::string& name) {
    follow(name, agents_.at(name).on_ranks_failed(now_s_));
  }
  // All agents save this step.
  void save(int64_t step) {
    for (auto& [name, agent] : agents_) follow(name, agent.on_saved(now_s_, step));
  }
  int64_t fenced_epoch() const { return fence_.epoch().value(); }
  const std::vector<int64_t>& committed() const { return committed_; }
  const std::vector<int64_t>& first_steps() const { return first_steps_; }

 private:
  void follow(const std::string& name, const MembershipEffects& effects) {
    for (const MembershipEffect& effect : effects) {
      now_s_ += 1e-6;
      MembershipAgent& agent = agents_.at(name);
      if (const auto* sent = std::get_if<SendMessage>(&effect)) {
        follow(sent->to, agents_.at(sent->to).on_message(now_s_, name, sent->message));
      } else if (const auto* asked = std::get_if<CallCoord>(&effect)) {
        const auto reply = perform(*coords_.at(name), asked->call, coord_deadline());
        EXPECT_TRUE(reply.ok()) << reply.error().message;
        follow(name, agent.on_coord_result(now_s_, asked->id, reply));
      } else if (const auto* raise = std::get_if<RaiseFence>(&effect)) {
        EXPECT_TRUE(fence_.raise(raise->epoch, coord_deadline()).ok());
        follow(name, agent.on_fence_raised(now_s_, raise->epoch));
      } else if (const auto* start = std::get_if<StartRanks>(&effect)) {
        first_steps_.push_back(start->membership.first_step);
      } else if (const auto* commit = std::get_if<CommitStep>(&effect)) {
        committed_.push_back(commit->saved.step);
      }
    }
  }

  std::map<std::string, MembershipAgent> agents_;
  std::map<std::string, std::unique_ptr<Coord>> coords_;
  WriteFence fence_;
  double now_s_ = 1.0;
  std::vector<int64_t> committed_, first_steps_;
};

TEST_P(CoordLaws, AgentsFormEpochsThroughIt) {
  JobOnCoord job([&] { return open(); }, folder_);
  ASSERT_TRUE(job.reach(1));
  EXPECT_EQ(job.fenced_epoch(), 1);
  job.save(1);
  job.save(2);
  EXPECT_EQ(job.committed(), (std::vector<int64_t>{1, 2}));
  job.fail_ranks("b");
  ASSERT_TRUE(job.reach(2));
  EXPECT_EQ(job.fenced_epoch(), 2);
  EXPECT_EQ(job.first_steps(), (std::vector<int64_t>{1, 1, 1, 3, 3, 3}));
  job.save(3);
  EXPECT_EQ(job.committed().back(), 3);
}

TEST_P(CoordLaws, AWaitEndsAtItsDeadline) {
  const int64_t begin_ns = steady_now_ns();
  const auto entry = wait_for_change(*coord_, "a", 0, Deadline::after(0.05));
  EXPECT_FALSE(entry.ok());
  EXPECT_LT(steady_now_ns() - begin_ns, int64_t{5} * 1'000'000'000);
  EXPECT_NE(entry.error().message.find(where_), std::string::npos) << entry.error().message;
}

INSTANTIATE_TEST_SUITE_P(Kinds, CoordLaws, testing::Values("file", "etcd"),
                         [](const auto& info) { return info.param; });

// A user of the folder that has just come must not end a lease that it has not watched, and a
// lease ends for all users once one of them has watched it for its length.
TEST(FileCoordLease, EndsOnlyForAUserThatHasWatchedIt) {
  const std::string folder = coord_folder("watched");
  auto first = FileCoord::open(folder).value();
  const LeaseId lease = first->grant(0.1, coord_deadline()).value();
  const CoordWrite write{.key = "a", .value = "1", .lease = lease};
  ASSERT_TRUE(first->compare_and_swap(write, coord_deadline())->is_written);
  sleep_s(0.15);
  auto second = FileCoord::open(folder).value();
  EXPECT_GT(second->get("a", coord_deadline())->version, 0);
  EXPECT_EQ(first->get("a", coord_deadline())->version, 0);
  EXPECT_EQ(second->get("a", coord_deadline())->version, 0);
  fs::remove_all(folder);
}

TEST(FileCoordLock, WhoHoldsItTooLongIsNamed) {
  const std::string folder = coord_folder("locked");
  auto coord = FileCoord::open(folder).value();
  ASSERT_TRUE(coord->get("a", coord_deadline()).ok());
  const int fd = ::open((folder + "/lock").c_str(), O_RDWR);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  const auto entry = coord->get("a", Deadline::after(0.05));
  ::close(fd);
  ASSERT_FALSE(entry.ok());
  const std::string holder = "is held by process " + std::to_string(::getpid()) + " on ";
  EXPECT_NE(entry.error().message.find(holder), std::string::npos) << entry.error().message;
  EXPECT_TRUE(coord->get("a", coord_deadline()).ok());
  fs::remove_all(folder);
}

// A damaged file is refused by name and never written over, however it was cut, and whichever byte
// was changed.
TEST(FileCoordContent, DamageIsRefused) {
  const std::string folder = coord_folder("damaged");
  auto coord = FileCoord::open(folder).value();
  const CoordWrite write{.key = "a", .value = "1"};
  ASSERT_TRUE(coord->compare_and_swap(write, coord_deadline())->is_written);
  const std::string path = folder + "/coord.json";
  const std::string text = read_text_file(path).value();
  std::vector<std::string> all;
  for (size_t at = 0; at < text.size(); ++at) {
    if (at % 7 == 0) all.push_back(text.substr(0, at));
    for (const char mask : {'\x01', '\x20', '\x80'}) {
      all.push_back(text);
      all.back()[at] = static_cast<char>(text[at] ^ mask);
    }
  }
  for (const std::string& wrong : all) {
    { std::ofstream(path, std::ios::binary) << wrong; }
    const auto swap = coord->compare_and_swap(write, coord_deadline());
    ASSERT_FALSE(swap.ok());
    EXPECT_EQ(swap.error().kind, ErrorKind::Damaged);
    EXPECT_TRUE(swap.error().message.starts_with(path)) << swap.error().message;
    EXPECT_EQ(read_text_file(path).value(), wrong);
  }
  fs::remove_all(folder);
}

TEST(FileCoordContent, OnlyTextIsTaken) {
  const std::string folder = coord_folder("bytes");
  auto coord = FileCoord::open(folder).value();
  const auto swap = coord->compare_and_swap({.key = "a", .value = "\xff\xfe"}, coord_deadline());
  ASSERT_FALSE(swap.ok());
  EXPECT_EQ(coord->get("a", coord_deadline())->version, 0);
  fs::remove_all(folder);
}

TEST(WriteFence, RefusesEveryOlderEpochAndNeverSinks) {
  const std::string folder = coord_folder("fence");
  const WriteFence fence(folder), other_host(folder);
  EXPECT_EQ(fence.epoch().value(), 0);
  int64_t highest = 0;
  for (const int64_t raised : {1, 4, 2, 4, 9}) {
    ASSERT_TRUE(fence.raise(raised, coord_deadline()).ok());
    highest = std::max(highest, raised);
    EXPECT_EQ(other_host.epoch().value(), highest);
    for (int64_t epoch = 0; epoch <= 10; ++epoch) {
      bool is_published = false;
      const auto publish = [&]() -> Status {
        is_published = true;
        return Done{};
      };
      const Status status = other_host.publish(epoch, publish, coord_deadline());
      EXPECT_EQ(is_published, epoch >= highest);
      EXPECT_EQ(status.ok(), is_published);
    }
  }
  const std::string path = folder + "/epoch.json", text = read_text_file(path).value();
  for (size_t at = 0; at < text.size(); ++at) {
    for (const char mask : {'\x01', '\x20', '\x80'}) {
      std::string changed = text;
      changed[at] = static_cast<char>(text[at] ^ mask);
      { std::ofstream(path, std::ios::binary) << changed; }
      EXPECT_FALSE(fence.epoch().ok()) << changed;
    }
  }
  EXPECT_FALSE(fence.raise(10, coord_deadline()).ok());
  fs::remove_all(folder);
}

// Nothing of an old epoch is published while or after a fence is raised.
TEST(WriteFence, IsNotRaisedWhileSomethingIsPublished) {
  const std::string folder = coord_folder("raised");
  const WriteFence fence(folder);
  ASSERT_TRUE(fence.raise(1, coord_deadline()).ok());
  const auto publish = [&]() -> Status { return fence.raise(2, Deadline::after(0.05)); };
  EXPECT_FALSE(fence.publish(1, publish, coord_deadline()).ok());
  EXPECT_EQ(fence.epoch().value(), 1);
  fs::remove_all(folder);
}

TEST(EtcdCoordErrors, NobodyOrASilentServerIsAnErrorAtTheDeadline) {
  Result<Socket> silent = listen_at("127.0.0.1:0");
  std::string nobody;
  {
    Result<Socket> closed = listen_at("127.0.0.1:0");
    nobody = own_address(*closed);
  }
  for (const std::string& address : {own_address(*silent), nobody}) {
    const int64_t begin_ns = steady_now_ns();
    EtcdCoord coord(address, "job");
    const auto entry = coord.get("a", Deadline::after(0.05));
    ASSERT_FALSE(entry.ok());
    EXPECT_TRUE(entry.error().message.starts_with("http://" + address + "/v3/kv/range: "))
        << entry.error().message;
    EXPECT_LT(steady_now_ns() - begin_ns, int64_t{5} * 1'000'000'000);
  }
}

TEST(HttpAnswer, OnlyAWholeOneIsTaken) {
  const std::string head = "HTTP/1.0 200 OK\r\ncontent-length: 4\r\nX: y\r\n\r\n";
  const auto answer = parse_http_answer(head + "body");
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "body");
  const std::string whole = head + "body";
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(parse_http_answer(whole.substr(0, length)).ok()) << length;
  }
  for (const char* text :
       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
        "HTTP/1.1 2x0 OK\r\n\r\n", "HTTP/1.1 \r\n\r\n", "HTTP/1.1\r\n\r\n", "SSH-2.0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nContent-Length: -4\r\n\r\nbody"}) {
    EXPECT_FALSE(parse_http_answer(text).ok()) << text;
  }
}

TEST(Base64, ComesBackForEveryLength) {
  std::string bytes;
  for (int k = 0; k < 300; ++k) {
    const std::string text = base64_of(bytes);
    EXPECT_EQ(text.size(), (bytes.size() + 2) / 3 * 4);
    EXPECT_EQ(bytes_of_base64(text).value(), bytes);
    bytes += char(k * 37);
  }
  EXPECT_EQ(base64_of("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64_of("foob"), "Zm9vYg==");
  for (const char* text : {"Zm9", "Zm9!", "Zg==Zg==", "===="}) {
    EXPECT_FALSE(bytes_of_base64(text).ok()) << text;
  }
}

TEST(OpenCoord, AnAddressOfAnotherKindIsRefused) {
  for (const char* where : {"", "file:", "etcd:", "etcd:host", "zk:host:1", "folder"}) {
    EXPECT_FALSE(open_coord(where, "job").ok()) << where;
  }
}

}  // namespace
}  // namespace trireme
