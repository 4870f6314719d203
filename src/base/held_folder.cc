#include "base/held_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace trireme {

Result<HeldFolder> HeldFolder::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    return Error{ErrorKind::Damaged, path + ": cannot open: " + std::strerror(errno)};
  }
  return HeldFolder(path, fd);
}

HeldFolder::HeldFolder(HeldFolder&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

HeldFolder& HeldFolder::operator=(HeldFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

HeldFolder::~HeldFolder() {
  if (fd_ >= 0) ::close(fd_);
}

bool HeldFolder::is_at_its_path() const {
  struct stat held {
  }, named{};
  return ::fstat(fd_, &held) == 0 && ::stat(path_.c_str(), &named) == 0 &&
         held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

std::string HeldFolder::inside() const { return "/proc/self/fd/" + std::to_string(fd_); }

}  // namespace trireme
