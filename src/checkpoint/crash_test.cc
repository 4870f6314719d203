#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/background_job.h"
#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/load.h"
#include "checkpoint/snapshot.h"

// The calls below replace those of the C library in this binary, so that a save can be stopped at
// each of its changes to the disk, and the order of its syncs can be checked.
namespace {

enum class Fault {
  None,
  Crash,    // from the nth change on no call has an effect, as if the machine were off
  NoSpace,  // from the nth change on nothing can be created or written, but removed and renamed
};

std::atomic<Fault> armed_fault = Fault::None;
std::atomic<int> changes_left = 0;  // changes until the fault
std::atomic<bool> is_recording = false;
std::vector<std::string> record;  // such as "write PATH", "sync PATH", "rename FROM"

void arm(Fault fault, int after) {
  changes_left = after;
  armed_fault = fault;
}

// Counts a change. Returns true, with errno set, if it must fail.
bool fails(bool needs_space) {
  const Fault fault = armed_fault;
  if (fault == Fault::None || (fault == Fault::NoSpace && !needs_space)) return false;
  if (changes_left.fetch_sub(1) > 0) return false;
  changes_left = 0;
  errno = fault == Fault::NoSpace ? ENOSPC : EIO;
  return true;
}

void note(const char* what, const std::string& path) {
  if (is_recording) record.push_back(std::string(what) + " " + path);
}

std::string path_of(int fd) {
  char path[4096];
  const ssize_t size =
      ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path);
  return size < 0 ? "" : std::string(path, static_cast<size_t>(size));
}

template <typename... Args>
int call(long number, Args... args) {
  return static_cast<int>(::syscall(number, args...));
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t size) {
  if (is_recording || armed_fault != Fault::None) {
    note("write", path_of(fd));
    if (fails(true)) {
      if (armed_fault == Fault::Crash && size > 1) ::syscall(SYS_write, fd, data, size / 2);
      errno = armed_fault == Fault::NoSpace ? ENOSPC : EIO;
      return -1;
    }
  }
  return ::syscall(SYS_write, fd, data, size);
}

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if ((flags & O_CREAT) != 0 && fails(true)) return -1;
  return call(SYS_openat, AT_FDCWD, path, flags, mode);
}

int fsync(int fd) {
  note("sync", path_of(fd));
  return fails(false) ? -1 : call(SYS_fsync, fd);
}

int rename(const char* from, const char* to) noexcept {
  note("rename", from);
  return fails(false) ? -1 : call(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
  note("rename", from);
  return fails(false) ? -1 : call(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

int mkdir(const char* path, mode_t mode) noexcept {
  return fails(true) ? -1 : call(SYS_mkdirat, AT_FDCWD, path, mode);
}

int unlink(const char* path) noexcept {
  return fails(false) ? -1 : call(SYS_unlinkat, AT_FDCWD, path, 0);
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  return fails(false) ? -1 : call(SYS_unlinkat, folder, path, flags);
}

int rmdir(const char* path) noexcept {
  return fails(false) ? -1 : call(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}
}

namespace trireme {
namespace {

namespace fs = std::filesystem;

using CrashTest = FolderTest;

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

void expect_holds(const std::string& path, const SmallState& state) {
  const auto checkpoint = Checkpoint::open(path);
  ASSERT_TRUE(checkpoint.ok()) << message_of(checkpoint);
  EXPECT_TRUE(checkpoint->verify(1).empty());
  std::vector<float> bias(state.bias.size());
  const TensorRequest request{"exp_avg/layers.0.attn.bq", Shape{5}, DType::F32,
                              Slice::whole(Shape{5}), bias.data()};
  const Status status = checkpoint->read({&request, 1});
  ASSERT_TRUE(status.ok()) << message_of(status);
  EXPECT_EQ(bias, state.bias);
}

// Saves a copy of the state on a thread of its own, while the state changes.
Result<std::string> save_beside_training(SmallState state, const std::string& root,
                                         const SaveOptions& options) {
  std::vector<std::byte> buffer((state.weight.size() + state.bias.size()) * sizeof(float));
  const std::vector<TensorPiece> copies = copy_pieces(state.pieces(), buffer);
  BackgroundJob job;
  job.start([&](Progress& progress) {
    SaveOptions shown = options;
    shown.progress = &progress;
    return save_checkpoint(root, state.info, state.attached(), copies, shown);
  });
  state.weight.assign(state.weight.size(), -1.0f);
  state.bias.assign(state.bias.size(), -1.0f);
  return job.take();
}

// Saves step 1, then step `step` with the fault after n changes, for every n until the fault is not
// reached any more. `check` inspects the disk after each.
template <typename Check>
void for_every_point_of(bool beside, const std::string& root, Fault fault, int64_t step,
                        Check&& check) {
  for (int n = 0; n < 1000; ++n) {
    SCOPED_TRACE(n);
    fs::remove_all(root);
    ASSERT_TRUE(SmallState(1).save(root).ok());
    arm(fault, n);
    const auto saved = beside ? save_beside_training(SmallState(step), root, {.keep = 1})
                              : SmallState(step).save(root, {.keep = 1});
    const bool reached = changes_left == 0;
    arm(Fault::None, 0);
    check(saved);
    if (testing::Test::HasFatalFailure()) return;
    if (saved.ok() && !reached) {
      EXPECT_GT(n, 10) << "fewer changes than a save makes: they are not counted";
      return;
    }
  }
  FAIL() << "a save of more than 1000 changes";
}

template <typename Check>
void for_every_point(const std::string& root, Fault fault, int64_t step, Check&& check) {
  for (const bool beside : {false, true}) {
    SCOPED_TRACE(beside ? "beside training" : "while training waits");
    for_every_point_of(beside, root, fault, step, check);
  }
}

TEST_F(CrashTest, ASaveThatEndsAnywhereLeavesACheckpointAndTheNextOneCleansUp) {
  for_every_point(root(), Fault::Crash, 2, [&](const Result<std::string>&) {
    const auto latest = find_latest_checkpoint(root());
    ASSERT_TRUE(latest.ok() && latest->step >= 1) << message_of(latest);
    EXPECT_TRUE(latest->skipped.empty()) << latest->skipped.front();
    expect_holds(latest->path, SmallState(latest->step));

    ASSERT_TRUE(SmallState(3).save(root(), {.keep = 1}).ok());
    EXPECT_EQ(names_in(root()), std::set<std::string>{"step-000003"});
  });
}

TEST_F(CrashTest, SavingAStepAgainThatEndsAnywhereLeavesTheOldOrTheNewOne) {
  for_every_point(root(), Fault::Crash, 1, [&](const Result<std::string>&) {
    const auto latest = find_latest_checkpoint(root());
    ASSERT_TRUE(latest.ok() && latest->step == 1) << message_of(latest);
    expect_holds(latest->path, SmallState(1));
  });
}

TEST_F(CrashTest, AFullDiskFailsTheSaveWithItsReasonAndLeavesNothingBehind) {
  for_every_point(root(), Fault::NoSpace, 2, [&](const Result<std::string>& saved) {
    if (saved.ok()) {
      EXPECT_EQ(names_in(root()), std::set<std::string>{"step-000002"});
      return;
    }
    EXPECT_EQ(saved.error().kind, ErrorKind::Damaged);
    EXPECT_NE(saved.error().message.find("No space left on device"), std::string::npos)
        << saved.error().message;
    EXPECT_EQ(names_in(root()), std::set<std::string>{"step-000001"});
    expect_holds(root() + "/step-000001", SmallState(1));
  });
}

TEST_F(CrashTest, EveryFileIsSyncedBeforeTheFolderGetsItsNameAndTheParentAfterwards) {
  record.clear();
  is_recording = true;
  const auto saved = SmallState(1).save(root());
  is_recording = false;
  ASSERT_TRUE(saved.ok()) << message_of(saved);
  std::set<std::string> dirty;
  bool is_named = false, is_durable = false;
  for (const std::string& line : record) {
    const std::string path = line.substr(line.find(' ') + 1);
    const bool is_folder = fs::path(path).filename().string().starts_with("step-");
    if (line.starts_with("write")) {
      EXPECT_FALSE(is_named) << line;
      dirty.insert(path);
    } else if (line.starts_with("sync")) {
      dirty.erase(path);
      is_durable = is_durable || (is_named && path == fs::canonical(root()).string());
    } else if (is_folder) {
      EXPECT_TRUE(dirty.empty()) << *dirty.begin();
      is_named = true;
    } else {
      EXPECT_FALSE(dirty.contains(path)) << line;
      dirty.insert(fs::canonical(root()) / fs::path(path).parent_path().filename());
    }
  }
  EXPECT_TRUE(is_named);
  EXPECT_TRUE(is_durable);
}

}  // namespace
}  // namespace trireme
