#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/load.h"
#include "disk_image.h"

// The calls below replace those of the C library in this binary. Before each change to the disk,
// the power is cut: a copy of the image is mounted and its checkpoints are read.
namespace {

enum class Guard { None, SyncOfFiles, SyncOfFolders };

std::function<void()> before_call;  // empty while nothing is saved
Guard removed = Guard::None;        // syncs of this kind do nothing

void cut_before_call() {
  if (!before_call) return;
  const auto cut = std::exchange(before_call, nullptr);  // because a cut makes calls, too
  cut();
  before_call = cut;
}

template <typename... Args>
int call(long number, Args... args) {
  return static_cast<int>(::syscall(number, args...));
}

bool is_removed(int fd) {
  struct stat info = {};
  if (removed == Guard::None || ::fstat(fd, &info) != 0) return false;
  return S_ISDIR(info.st_mode) == (removed == Guard::SyncOfFolders);
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t size) {
  cut_before_call();
  return ::syscall(SYS_write, fd, data, size);
}

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if ((flags & O_CREAT) != 0) cut_before_call();
  return call(SYS_openat, AT_FDCWD, path, flags, mode);
}

int fsync(int fd) {
  cut_before_call();
  return is_removed(fd) ? 0 : call(SYS_fsync, fd);
}

int rename(const char* from, const char* to) noexcept {
  cut_before_call();
  return call(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
  cut_before_call();
  return call(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

int mkdir(const char* path, mode_t mode) noexcept {
  cut_before_call();
  return call(SYS_mkdirat, AT_FDCWD, path, mode);
}

int unlink(const char* path) noexcept {
  cut_before_call();
  return call(SYS_unlinkat, AT_FDCWD, path, 0);
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  cut_before_call();
  return call(SYS_unlinkat, folder, path, flags);
}

int rmdir(const char* path) noexcept {
  cut_before_call();
  return call(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}
}

namespace trireme {
namespace {

namespace fs = std::filesystem;

// The kernel may write anything at any time, so this much reaches the disk beside the syncs of a
// save.
enum class Writeback {
  None,     // nothing
  Journal,  // another program syncs a file: all names and sizes, but not the data of other files
  All,      // everything, before every call
};

class PowerCut : public FolderTest {
 protected:
  PowerCut() : image_(root() + "/power") {}

  // Saves four times, step 2 twice, and cuts the power before every call and after every save.
  // Returns what was wrong first, or "".
  std::string save_with_cuts(Writeback writeback, Guard guard) {
    writeback_ = writeback;
    removed = guard;
    for (const int64_t step : {1, 2, 2, 3}) {
      before_call = [this] { cut(); };
      const auto saved = SmallState(step).save(image_.disk() + "/run", {.keep = 1});
      before_call = nullptr;
      EXPECT_TRUE(saved.ok()) << message_of(saved);
      committed_ = step;
      writeback_ = Writeback::None;
      cut();
      writeback_ = writeback;
    }
    removed = Guard::None;
    return wrong_;
  }

  // Mounts the disk as it is after a power cut. Every checkpoint that has a name is whole, and the
  // newest one is the last that was committed, or the one that is being saved.
  void cut() {
    write_back();
    ++num_cuts_;
    if (!wrong_.empty()) return;
    if (!image_.mount_copy()) {
      wrong_ = "the copy cannot be mounted";
      return;
    }
    wrong_ = problem_of(image_.copy() + "/run");
    if (!wrong_.empty()) {
      wrong_ = "cut " + std::to_string(num_cuts_) + ", committed step " +
               std::to_string(committed_) + ": " + wrong_;
    }
    image_.unmount_copy();
  }

  void write_back() const {
    if (writeback_ == Writeback::None) return;
    const std::string other = image_.disk() + "/other";
    const int fd = ::open(other.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_EQ(::write(fd, &num_cuts_, sizeof num_cuts_), ssize_t{sizeof num_cuts_});
    call(writeback_ == Writeback::All ? SYS_syncfs : SYS_fsync, fd);
    ::close(fd);
  }

  std::string problem_of(const std::string& folder) const {
    const auto latest = find_latest_checkpoint(folder);
    if (!latest.ok()) return latest.error().message;
    if (!latest->skipped.empty()) return latest->skipped.front();
    if (latest->path.empty()) return committed_ == 0 ? "" : "no checkpoint is left";
    if (latest->step < committed_) return "the newest is of step " + std::to_string(latest->step);
    const auto checkpoint = Checkpoint::open(latest->path);
    if (!checkpoint.ok()) return message_of(checkpoint);
    const auto problems = checkpoint->verify(1);
    return problems.empty() ? "" : problems.front();
  }

  DiskImage image_;
  Writeback writeback_ = Writeback::None;
  int64_t committed_ = 0;  // the step of the last save that has returned
  int num_cuts_ = 0;
  std::string wrong_;
};

TEST_F(PowerCut, NothingReachesTheDiskBesideTheSyncs) {
  if (const std::string why = image_.mount(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_EQ(save_with_cuts(Writeback::None, Guard::None), "");
  EXPECT_GT(num_cuts_, 100);
}

TEST_F(PowerCut, TheNamesReachTheDiskBeforeTheData) {
  if (const std::string why = image_.mount(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_EQ(save_with_cuts(Writeback::Journal, Guard::None), "");
}

TEST_F(PowerCut, EverythingReachesTheDiskAtOnce) {
  if (const std::string why = image_.mount(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_EQ(save_with_cuts(Writeback::All, Guard::None), "");
}

// The cuts find a save that does not sync its files, or not its folders.
TEST_F(PowerCut, IsNoticedWithoutTheSyncOfFiles) {
  if (const std::string why = image_.mount(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_NE(save_with_cuts(Writeback::Journal, Guard::SyncOfFiles), "");
}

TEST_F(PowerCut, IsNoticedWithoutTheSyncOfFolders) {
  if (const std::string why = image_.mount(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_NE(save_with_cuts(Writeback::None, Guard::SyncOfFolders), "");
}

}  // namespace
}  // namespace trireme
