#include "coord/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace trireme {
namespace {

constexpr auto kRetryLockEvery = std::chrono::microseconds(500);

Error lock_error(const std::string& path, const std::string& what) {
  return {ErrorKind::Runtime, path + ": " + what};
}

}  // namespace

Result<FolderLock> FolderLock::take(const std::string& path, Deadline deadline) {
  FolderLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (lock.fd_ < 0) return lock_error(path, std::string("cannot open: ") + std::strerror(errno));
  while (::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) {
      return lock_error(path, std::string("cannot lock: ") + std::strerror(errno) +
                                  "; use a folder on a file system with locks, or etcd:HOST:PORT");
    }
    if (deadline.left_ms() == 0) {
      return lock_error(path, "is held by " + lock.holder() + " until after the deadline");
    }
    std::this_thread::sleep_for(kRetryLockEvery);
  }
  lock.say_holder();
  return lock;
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

std::string FolderLock::holder() const {
  std::array<char, 300> text{};
  const ssize_t length = ::pread(fd_, text.data(), text.size(), 0);
  return length > 0 ? std::string(text.data(), size_t(length)) : "another process";
}

void FolderLock::say_holder() const {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  const std::string text = fmt::format("process {} on {}", ::getpid(), host.data());
  // Only a report needs the text, so a failure to write it may be ignored.
  if (::ftruncate(fd_, 0) == 0 && ::pwrite(fd_, text.data(), text.size(), 0) < 0) return;
}

}  // namespace trireme
