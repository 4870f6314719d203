#include "intercepted_calls.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <mutex>
#include <string_view>
#include <utility>

namespace {

using trireme::Guard;

struct Watch {
  std::vector<std::string> folders;
  std::vector<dev_t> devices;
  std::function<void()> before_change;
  Guard removed = Guard::None;
};

std::atomic<bool> is_watching = false;
std::mutex one_at_a_time;  // is held while a watched call is made
Watch watch;               // does not change while is_watching
thread_local bool is_cutting = false;

bool is_watched(int fd) {
  struct stat info = {};
  return ::fstat(fd, &info) == 0 &&
         std::find(watch.devices.begin(), watch.devices.end(), info.st_dev) != watch.devices.end();
}

bool is_watched(int folder, const char* path) {
  if (path[0] != '/') return folder != AT_FDCWD && is_watched(folder);
  return std::any_of(watch.folders.begin(), watch.folders.end(), [&](const std::string& root) {
    return std::string_view(path).starts_with(root + "/");
  });
}

void cut() {
  is_cutting = true;
  watch.before_change();
  is_cutting = false;
}

// Holds the lock, and has cut the power, if the call changes a watched disk.
class Change {
 public:
  template <typename... Place>
  explicit Change(Place... place) {
    // Nobody waits for the lock here who works for a cut: its disks are not watched.
    if (is_cutting || !is_watching || !is_watched(place...)) return;
    lock_ = std::unique_lock(one_at_a_time);
    is_watched_ = is_watching;
    if (is_watched_) cut();
  }
  bool is_watched_one() const { return is_watched_; }

 private:
  bool is_watched_ = false;
  std::unique_lock<std::mutex> lock_;
};

template <typename... Args>
long call(long number, Args... args) {
  return ::syscall(number, args...);
}

bool is_removed(int fd) {
  struct stat info = {};
  if (watch.removed == Guard::None || ::fstat(fd, &info) != 0) return false;
  return S_ISDIR(info.st_mode) == (watch.removed == Guard::SyncOfFolders);
}

int sync_of(long number, int fd) {
  const Change change(fd);
  if (change.is_watched_one() && is_removed(fd)) return 0;
  return int(call(number, fd));
}

ssize_t write_at(int fd, const void* data, size_t size, off_t offset) {
  const Change change(fd);
  if (!change.is_watched_one() || size < 2) return call(SYS_pwrite64, fd, data, size, offset);
  const ssize_t half = call(SYS_pwrite64, fd, data, size / 2, offset);
  if (half < 0) return half;
  cut();
  const char* const rest = static_cast<const char*>(data) + half;
  const ssize_t more = call(SYS_pwrite64, fd, rest, size - size_t(half), offset + half);
  return more < 0 ? more : half + more;
}

}  // namespace

namespace trireme {

void watch_disks(std::vector<std::string> folders, std::function<void()> before_change,
                 Guard removed) {
  const std::lock_guard lock(one_at_a_time);
  watch = {.folders = std::move(folders), .devices = {}, .before_change = std::move(before_change)};
  watch.removed = removed;
  for (const std::string& folder : watch.folders) {
    struct stat info = {};
    if (::stat(folder.c_str(), &info) == 0) watch.devices.push_back(info.st_dev);
  }
  is_watching = true;
}

void stop_watching() {
  const std::lock_guard lock(one_at_a_time);
  is_watching = false;
}

}  // namespace trireme

extern "C" {

ssize_t write(int fd, const void* data, size_t size) {
  const Change change(fd);
  if (!change.is_watched_one() || size < 2) return call(SYS_write, fd, data, size);
  const ssize_t half = call(SYS_write, fd, data, size / 2);
  if (half < 0) return half;
  cut();
  const ssize_t more =
      call(SYS_write, fd, static_cast<const char*>(data) + half, size - size_t(half));
  return more < 0 ? more : half + more;
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  return write_at(fd, data, size, offset);
}

ssize_t pwrite64(int fd, const void* data, size_t size, off_t offset) {
  return write_at(fd, data, size, offset);
}

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if ((flags & O_CREAT) == 0) return int(call(SYS_openat, AT_FDCWD, path, flags, mode));
  const Change change(AT_FDCWD, path);
  return int(call(SYS_openat, AT_FDCWD, path, flags, mode));
}

int ftruncate(int fd, off_t size) noexcept {
  const Change change(fd);
  return int(call(SYS_ftruncate, fd, size));
}

int fsync(int fd) { return sync_of(SYS_fsync, fd); }
int fdatasync(int fd) { return sync_of(SYS_fdatasync, fd); }

int rename(const char* from, const char* to) noexcept {
  const Change change(AT_FDCWD, from);
  return int(call(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
  const Change change(from_folder, from);
  return int(call(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

int mkdir(const char* path, mode_t mode) noexcept {
  const Change change(AT_FDCWD, path);
  return int(call(SYS_mkdirat, AT_FDCWD, path, mode));
}

int unlink(const char* path) noexcept {
  const Change change(AT_FDCWD, path);
  return int(call(SYS_unlinkat, AT_FDCWD, path, 0));
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  const Change change(folder, path);
  return int(call(SYS_unlinkat, folder, path, flags));
}

int rmdir(const char* path) noexcept {
  const Change change(AT_FDCWD, path);
  return int(call(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}

int remove(const char* path) noexcept {
  const Change change(AT_FDCWD, path);
  const int removed = int(call(SYS_unlinkat, AT_FDCWD, path, 0));
  if (removed == 0 || errno != EISDIR) return removed;
  return int(call(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}
}
