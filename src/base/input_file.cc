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

InputFile::InputFile(std::string path, std::shared_ptr<const InputBytes> source)
    : path_(std::move(path)), bytes_(source->bytes()), source_(std::move(source)) {}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      bytes_(std::exchange(other.bytes_, 0)),
      source_(std::move(other.source_)) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  std::swap(source_, other.source_);
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
  if (source_ != nullptr) return source_->read(offset, out);
  while (!out.empty()) {
    const ssize_t count = ::pread(fd_, out.data(), out.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return failure(offset, count < 0 ? errno : 0);
    out = out.subspan(static_cast<size_t>(count));
    offset += count;
  }
  return Done{};
}

Result<std::string> InputFile::read_all(int64_t most_bytes) const {
  if (bytes_ > most_bytes) {
    return damaged(path_ + ": has " + std::to_string(bytes_) +
                   " bytes; a file of its kind has at most " + std::to_string(most_bytes));
  }
  std::string text(static_cast<size_t>(bytes_), '\0');
  TRIREME_TRY_DONE(read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

void InputFile::will_read(int64_t offset, int64_t bytes) const {
  if (source_ != nullptr) return source_->will_read(offset, bytes);
  ::posix_fadvise(fd_, offset, bytes, POSIX_FADV_WILLNEED);
}

bool is_url(std::string_view name) {
  const size_t end = name.find("://");
  return end != std::string_view::npos && end > 0 && name.find('/') > end;
}

Result<InputFile> open_named(const std::string& name, const OpenInput& open_input) {
  if (!is_url(name)) return InputFile::open(name);
  if (open_input) return open_input(name);
  return usage(name + ": only files of this machine can be read here");
}

}  // namespace trireme
