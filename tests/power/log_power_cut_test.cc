// The power is cut before every change that a server of the metadata makes to its log.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "disk_image.h"
#include "intercepted_calls.h"
#include "raft/log_file.h"

namespace trireme {
namespace {

class LogPowerCut : public testing::Test {
 protected:
  LogPowerCut()
      : root_(testing::TempDir() + "/trireme-log-power-" + std::to_string(getpid())),
        image_(root_) {}

  // Writes to a log as a server does: votes, entries, entries that replace others, a snapshot.
  // Returns what was wrong first, or "".
  std::string write_with_cuts(Writeback writeback, Guard guard) {
    writeback_ = writeback;
    watch_disks(
        {image_.disk()}, [this] { cut(); }, guard);
    open();
    append(LogVote{1, 2}, 1, 1, 3);
    append(std::nullopt, 1, 4, 2);
    append(LogVote{3, 1}, 3, 4, 4);  // a new leader replaces entries 4 and 5
    save_snapshot(5);
    append(std::nullopt, 3, 8, 1);
    open();
    append(LogVote{4, 3}, 4, 9, 2);
    save_snapshot(10);
    log_.reset();
    stop_watching();
    cut();
    return wrong_;
  }

  void open() {
    log_.reset();
    LogContents contents;
    Result<LogFile> log = LogFile::open(image_.disk() + "/log", contents);
    ASSERT_TRUE(log.ok()) << log.error().message;
    EXPECT_EQ(difference(contents, written_), "");
    log_.emplace(std::move(*log));
  }
  void append(const std::optional<LogVote>& vote, int64_t term, int64_t first, int64_t count) {
    std::vector<LogEntry> entries;
    for (int64_t index = first; index < first + count; ++index) {
      entries.push_back({index, term, EntryKind::Command, std::string(size_t(100 * index), 'x')});
    }
    LogContents next = written_;
    if (vote) next.vote = *vote;
    std::erase_if(next.entries, [&](const LogEntry& entry) { return entry.index >= first; });
    next.entries.insert(next.entries.end(), entries.begin(), entries.end());
    try_next(next, [&] { return log_->append(vote, entries); });
  }
  void save_snapshot(int64_t index) {
    LogContents next = written_;
    std::erase_if(next.entries, [&](const LogEntry& entry) { return entry.index <= index; });
    next.snapshot = {.index = index, .term = 3, .members = "", .state = std::string(5000, 's')};
    try_next(next, [&] { return log_->save_snapshot(next.snapshot, next.vote, next.entries); });
  }
  // Meanwhile the disk has the old contents or the new ones.
  template <typename Write>
  void try_next(const LogContents& next, const Write& write) {
    tried_ = next;
    checked_ = 0;
    const Status status = write();
    ASSERT_TRUE(status.ok()) << status.error().message;
    written_ = next;
    checked_ = 0;
  }

  void cut() {
    image_.write_back(writeback_);
    ++num_cuts_;
    // A disk that is as at the cut before is not read again.
    const uint64_t disk = image_.checksum();
    if (!wrong_.empty() || std::exchange(checked_, disk) == disk) return;
    wrong_ = image_.mount_copy() ? problem_of(image_.copy() + "/log") : "no copy can be mounted";
    if (!wrong_.empty()) wrong_ = "cut " + std::to_string(num_cuts_) + ": " + wrong_;
    image_.unmount_copy();
  }
  std::string problem_of(const std::string& folder) const {
    LogContents contents;
    const Result<LogFile> log = LogFile::open(folder, contents);
    if (!log.ok()) return log.error().message;
    const std::string problem = difference(contents, written_);
    return problem.empty() || difference(contents, tried_).empty() ? "" : problem;
  }
  static std::string difference(const LogContents& found, const LogContents& wanted) {
    if (found.snapshot.index != wanted.snapshot.index) return "it has another snapshot";
    if (found.snapshot.state != wanted.snapshot.state) return "its snapshot has another state";
    if (found.vote != wanted.vote) return "it has another vote";
    if (found.entries != wanted.entries) return "it has other entries";
    return "";
  }

  std::string root_;
  DiskImage image_;
  std::optional<LogFile> log_;
  Writeback writeback_ = Writeback::None;
  LogContents written_, tried_;
  int num_cuts_ = 0;
  uint64_t checked_ = 0;  // the disk at the newest cut; 0: what is expected has changed since
  std::string wrong_;
};

TEST_F(LogPowerCut, LosesNothingWrittenWhateverReachesTheDiskBesideTheSyncs) {
  if (const std::string why = image_.mount(); !why.empty()) GTEST_SKIP() << why;
  for (const Writeback writeback : {Writeback::None, Writeback::Journal, Writeback::All}) {
    EXPECT_EQ(write_with_cuts(writeback, Guard::None), "");
    std::filesystem::remove_all(image_.disk() + "/log");
    written_ = tried_ = {};
  }
  EXPECT_GT(num_cuts_, 100);
}

// A missing sync of the folder would not be noticed: each new name is followed by the sync of a
// file, with which ext4 writes the name, too.
TEST_F(LogPowerCut, IsNoticedWithoutTheSyncOfFiles) {
  if (const std::string why = image_.mount(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_NE(write_with_cuts(Writeback::Journal, Guard::SyncOfFiles), "");
}

}  // namespace
}  // namespace trireme
