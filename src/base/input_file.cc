#include "base/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace trireme {

Result<InputFile> InputFile::open(const std::string& path) {
  // O_NONBLOCK, because opening a pipe without a writer would wait.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return damaged(path + ": cannot open: " + std::strerror(errno));
  InputFile file(path, fd, 0);
  struct stat info {};
  if (::fstat(fd, &info) != 0) return damaged(path + ": cannot read: " + std::strerror(errno));
  if (S_ISDIR(info.st_mode)) return damaged(path + ": cannot read: " + std::strerror(EISDIR));
  if (!S_ISREG(info.st_mode)) return damaged(path + ": cannot read: not a regular file");
  file.bytes_ = static_cast<int64_t>(info.st_size);
  return file;
}

InputFile::InputFile(std::string path, int fd, int64_t bytes)
    : path_(std::move(path)), fd_(fd), bytes_(bytes) {}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      bytes_(std::exchange(other.bytes_, 0)) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

// `cause` is 0 at the end of the file.
Error InputFile::failure(int64_t offset, int cause) const {
  std::string message = path_ + ": cannot read at byte " + std::to_string(offset) + ": ";
  if (cause != 0) return damaged(message + std::strerror(cause));
  struct stat info {};
  const int64_t end = ::fstat(fd_, &info) == 0 ? static_cast<int64_t>(info.st_size) : offset;
  return damaged(message + "the file ends at byte " + std::to_string(end) + "; it had " +
                 std::to_string(bytes_) + " bytes when it was opened: it was truncated");
}

Status InputFile::read(int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t count = ::pread(fd_, out.data(), out.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return failure(offset, count < 0 ? errno : 0);
    out = out.subspan(static_cast<size_t>(count));
    offset += count;
  }
  return Done{};
}

void InputFile::will_read(int64_t offset, int64_t bytes) const {
  ::posix_fadvise(fd_, offset, bytes, POSIX_FADV_WILLNEED);
}

}  // namespace trireme
