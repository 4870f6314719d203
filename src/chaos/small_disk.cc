#include "chaos/small_disk.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace trireme {

namespace fs = std::filesystem;

namespace {

constexpr const char* kFiller = "/.full";

}  // namespace

Result<SmallDisk> SmallDisk::make(const std::string& folder, int64_t bytes) {
  std::error_code error;
  fs::create_directories(folder, error);
  const std::string size = fmt::format("size={}", bytes);
  if (::mount("tmpfs", folder.c_str(), "tmpfs", 0, size.c_str()) != 0) {
    return Error{ErrorKind::Runtime,
                 fmt::format("{}: a tmpfs cannot be mounted: {}", folder, std::strerror(errno))};
  }
  return SmallDisk(folder);
}

SmallDisk::~SmallDisk() {
  if (folder_.empty()) return;
  empty();
  const std::string kept = folder_ + ".kept";
  std::error_code error;
  fs::copy(folder_, kept, fs::copy_options::recursive, error);
  ::umount2(folder_.c_str(), MNT_DETACH);
  if (error) return;
  fs::remove(folder_, error);
  fs::rename(kept, folder_, error);
}

void SmallDisk::fill() const {
  const int fd = ::open((folder_ + kFiller).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  static constexpr std::array<char, 65536> kBytes = {};
  while (::write(fd, kBytes.data(), kBytes.size()) > 0) {
  }
  ::close(fd);
}

void SmallDisk::empty() const { ::unlink((folder_ + kFiller).c_str()); }

}  // namespace trireme
