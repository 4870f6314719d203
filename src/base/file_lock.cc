#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/leftovers.h"

namespace trireme {
namespace {

constexpr int64_t kMostHolderBytes = 300;

std::string holder_text() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return "process " + std::to_string(::getpid()) + " on " + host.data();
}

std::string read_holder(int fd) {
  std::array<char, kMostHolderBytes> text{};
  const ssize_t length = ::pread(fd, text.data(), text.size(), 0);
  return length > 0 ? std::string(text.data(), size_t(length)) : "another process";
}

// A lock is a small file that we have made. Anything else is left alone: a link may point anywhere,
// and a file with a second name belongs to somebody else.
bool is_lock_file(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink <= 1 &&
         info.st_size <= kMostHolderBytes;
}

Error no_lock(const std::string& path) {
  return damaged(path +
                 " is not a lock file of a run but a link, a folder or another file: move it "
                 "away");
}

}  // namespace

Result<FileLock> FileLock::take(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
  if (fd < 0) {
    if (errno == ELOOP || errno == EISDIR || errno == ENXIO) return no_lock(path);
    return Error{ErrorKind::Damaged, path + ": cannot create: " + std::strerror(errno)};
  }
  FileLock lock("", fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return lock;  // a file system without locks cannot keep others out
    return Error{ErrorKind::Usage, path + ": held by " + read_holder(fd)};
  }
  // The previous holder may have removed the file between our open and our lock.
  if (!is_still_at(fd, path)) return take(path);
  if (!is_lock_file(fd)) return no_lock(path);
  const std::string holder = holder_text();
  const bool is_written = ::ftruncate(fd, 0) == 0 &&
                          ::pwrite(fd, holder.data(), holder.size(), 0) == ssize_t(holder.size());
  if (!is_written) {
    return Error{ErrorKind::Damaged, path + ": cannot write: " + std::strerror(errno)};
  }
  lock.path_ = path;
  return lock;
}

FileLock::FileLock(FileLock&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

FileLock::~FileLock() {
  if (fd_ < 0) return;
  if (!path_.empty() && is_still_at(fd_, path_)) ::unlink(path_.c_str());
  ::close(fd_);
}

}  // namespace trireme
