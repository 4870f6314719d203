#include "raft/local_log.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "base/file.h"
#include "raft/journal_machine_fixture.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class LocalLogTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "local_log_" + std::to_string(::getpid());
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string segment() const {
    for (const auto& file : fs::directory_iterator(folder_)) {
      if (file.path().filename().string().starts_with("log-")) return file.path().string();
    }
    return "";
  }
  std::string read(const std::string& path) const { return *read_text_file(path); }
  void write(const std::string& path, const std::string& bytes) const {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  // Applies commands FIRST .. LAST - 1.
  void fill(int first, int last, int64_t entries_per_snapshot = 1000) {
    JournalMachine machine;
    auto log = LocalLog::open(folder_, machine, entries_per_snapshot);
    ASSERT_TRUE(log.ok()) << log.error().message;
    for (int i = first; i < last; ++i) {
      const auto answer = (*log)->apply("command " + std::to_string(i), Deadline::after(10));
      ASSERT_TRUE(answer.ok()) << answer.error().message;
      EXPECT_EQ(answer->bytes, std::to_string(i + 1));
    }
  }
  Result<int64_t> reopened_length() {
    JournalMachine machine;
    auto log = LocalLog::open(folder_, machine);
    if (!log) return log.error();
    for (size_t i = 0; i < machine.lines().size(); ++i) {
      EXPECT_EQ(machine.lines()[i], "command " + std::to_string(i));
    }
    return int64_t(machine.lines().size());
  }

  std::string folder_;
};

TEST_F(LocalLogTest, StateIsTheSameAfterEveryReopenWithAndWithoutSnapshots) {
  for (const int64_t entries_per_snapshot : {1, 3, 1000}) {
    fs::remove_all(folder_);
    for (int i = 0; i < 8; i += 4) {
      fill(i, i + 4, entries_per_snapshot);
      EXPECT_EQ(*reopened_length(), i + 4);
    }
  }
}

TEST_F(LocalLogTest, LogGoesOnAfterALastFrameThatWasCutOff) {
  fill(0, 3);
  const std::string before = read(segment());
  fill(3, 4);
  const std::string after = read(segment());
  for (const size_t size : {before.size() + 1, after.size() - 1}) {
    write(segment(), after.substr(0, size));
    fill(3, 5);
    EXPECT_EQ(*reopened_length(), 5) << size;
  }
}

TEST_F(LocalLogTest, DamageIsAnErrorThatNamesTheFile) {
  fill(0, 5, 3);  // a snapshot and two frames after it
  for (const std::string& path : {segment(), folder_ + "/snapshot"}) {
    const std::string good = read(path);
    for (size_t i = 0; i < good.size(); i += 7) {
      std::string bad = good;
      bad[i] = char(bad[i] ^ (1 << (i % 8)));
      write(path, bad);
      const Result<int64_t> length = reopened_length();
      ASSERT_FALSE(length.ok()) << path << " byte " << i;
      EXPECT_EQ(length.error().kind, ErrorKind::Damaged);
      EXPECT_NE(length.error().message.find(path), std::string::npos) << length.error().message;
    }
    write(path, good);
  }
  EXPECT_EQ(*reopened_length(), 5);
}

TEST_F(LocalLogTest, MissingFilesAreNoticed) {
  fill(0, 5, 3);
  const std::string snapshot = read(folder_ + "/snapshot");
  fs::remove(folder_ + "/snapshot");
  EXPECT_FALSE(reopened_length().ok());
  write(folder_ + "/snapshot", snapshot);
  EXPECT_EQ(*reopened_length(), 5);
  fs::remove(segment());
  EXPECT_FALSE(reopened_length().ok());
}

TEST_F(LocalLogTest, CrashBetweenSnapshotAndNewSegmentLosesNothing) {
  fill(0, 5, 1000);
  const std::string old_segment = segment();
  const std::string old_bytes = read(old_segment);
  fill(5, 6, 1);  // makes a snapshot and a new segment
  fs::remove(segment());
  write(old_segment, old_bytes);
  EXPECT_EQ(*reopened_length(), 6);  // entry 6 is in the snapshot only
  fill(6, 8);
  EXPECT_EQ(*reopened_length(), 8);
}

TEST_F(LocalLogTest, AfterAFailedWriteNoCommandIsTakenAndAcknowledgedOnesAreKept) {
  fill(0, 3);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  {
    JournalMachine machine;
    const auto log = LocalLog::open(folder_, machine);
    ASSERT_TRUE(log.ok());
    const rlimit full{.rlim_cur = fs::file_size(segment()) + 20, .rlim_max = limit.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
    const auto failed = (*log)->apply("command 3", Deadline::after(10));
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    ASSERT_FALSE(failed.ok());
    EXPECT_NE(failed.error().message.find("log-1: cannot write"), std::string::npos)
        << failed.error().message;
    EXPECT_FALSE((*log)->apply("command 4", Deadline::after(10)).ok());
    EXPECT_FALSE((*log)->query("", Deadline::after(10)).ok());
    EXPECT_EQ(machine.lines().size(), 3u);
  }
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(*reopened_length(), 3);
  fill(3, 5);
  EXPECT_EQ(*reopened_length(), 5);
}

TEST_F(LocalLogTest, SecondServerIsKeptOutOfTheFolder) {
  JournalMachine first, second;
  const auto log = LocalLog::open(folder_, first);
  ASSERT_TRUE(log.ok());
  const auto other = LocalLog::open(folder_, second);
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("held by"), std::string::npos);
}

TEST_F(LocalLogTest, ManyThreadsLoseNothingAndSeeTheirOwnCommands) {
  constexpr int kThreads = 8, kCommands = 40;
  std::atomic<int> wrong = 0;
  {
    JournalMachine machine;
    auto log = LocalLog::open(folder_, machine, 50);
    ASSERT_TRUE(log.ok());
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < kCommands; ++i) {
          const std::string line = std::to_string(thread) + ":" + std::to_string(i);
          const auto applied = (*log)->apply(line, Deadline::after(30));
          const auto length = (*log)->query("", Deadline::after(30));
          if (!applied || !length || std::stoll(length->bytes) < std::stoll(applied->bytes)) {
            ++wrong;
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(wrong, 0);
  JournalMachine machine;
  const auto log = LocalLog::open(folder_, machine);
  ASSERT_TRUE(log.ok());
  const std::set<std::string> lines(machine.lines().begin(), machine.lines().end());
  EXPECT_EQ(lines.size(), size_t(kThreads * kCommands));
  EXPECT_EQ(machine.lines().size(), size_t(kThreads * kCommands));
}

// Prints applies per second; run it by name on a disk whose figures are wanted.
TEST_F(LocalLogTest, DISABLED_Throughput) {
  for (const int num_threads : {1, 16}) {
    fs::remove_all(folder_);
    JournalMachine machine;
    auto log = LocalLog::open(folder_, machine);
    std::vector<std::thread> threads;
    std::atomic<int64_t> applied = 0;
    const Deadline end = Deadline::after(5);
    for (int thread = 0; thread < num_threads; ++thread) {
      threads.emplace_back([&] {
        while (end.left_ms() > 0 && (*log)->apply(std::string(200, 'x'), Deadline::after(30))) {
          ++applied;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::printf("%d callers: %.0f applies/s of 200 bytes\n", num_threads, double(applied) / 5);
  }
}

}  // namespace
}  // namespace trireme
