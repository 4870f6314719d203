#include "data/part_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace trireme {
namespace {

constexpr size_t kBufferTokens = size_t{1} << 18;

Error failure_at(const std::string& path, const char* action) {
  return {ErrorKind::Damaged, path + ": cannot " + action + ": " + std::strerror(errno)};
}

}  // namespace

Result<PartFile> PartFile::open(const std::string& path, int64_t keep_tokens) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd < 0) return failure_at(path, "create");
  PartFile file(path, fd, keep_tokens);
  const int64_t bytes = keep_tokens * static_cast<int64_t>(sizeof(int32_t));
  struct stat info {};
  if (::fstat(fd, &info) != 0) return failure_at(path, "read");
  if (info.st_size < bytes) {
    return Error{ErrorKind::Damaged, path +
                                         ": shorter than when the preparation was stopped; "
                                         "remove it to start afresh"};
  }
  if (::ftruncate(fd, bytes) != 0 || ::lseek(fd, 0, SEEK_END) != bytes) {
    return failure_at(path, "write");
  }
  return file;
}

PartFile::PartFile(std::string path, int fd, int64_t num_tokens)
    : path_(std::move(path)), fd_(fd), num_tokens_(num_tokens) {}

PartFile::PartFile(PartFile&& other) noexcept { *this = std::move(other); }

PartFile& PartFile::operator=(PartFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(num_tokens_, other.num_tokens_);
  std::swap(buffer_, other.buffer_);
  return *this;
}

PartFile::~PartFile() {
  if (fd_ >= 0) ::close(fd_);
}

Status PartFile::append(std::span<const int32_t> tokens) {
  buffer_.insert(buffer_.end(), tokens.begin(), tokens.end());
  num_tokens_ += static_cast<int64_t>(tokens.size());
  return buffer_.size() < kBufferTokens ? Status(Done{}) : flush();
}

Status PartFile::flush() {
  auto bytes = std::as_bytes(std::span(buffer_));
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failure_at(path_, "write");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  buffer_.clear();
  return Done{};
}

Status PartFile::read(int64_t offset, std::span<int32_t> tokens) const {
  auto bytes = std::as_writable_bytes(tokens);
  int64_t position = offset * static_cast<int64_t>(sizeof(int32_t));
  while (!bytes.empty()) {
    const ssize_t got = ::pread(fd_, bytes.data(), bytes.size(), position);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure_at(path_, "read");
    if (got == 0) return Error{ErrorKind::Damaged, path_ + ": was truncated by another program"};
    bytes = bytes.subspan(static_cast<size_t>(got));
    position += got;
  }
  return Done{};
}

Status PartFile::sync() {
  TRIREME_TRY_DONE(flush());
  if (::fsync(fd_) != 0) return failure_at(path_, "sync");
  return Done{};
}

}  // namespace trireme
