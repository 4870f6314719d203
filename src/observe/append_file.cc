#include "observe/append_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file.h"
#include "base/leftovers.h"

namespace trireme {
namespace {

constexpr int64_t kMostRestoredBytes = int64_t{4} << 30;

}  // namespace

// Removes the old file instead of truncating it, because it may be a link or have another name.
Result<AppendFile> AppendFile::create(const std::string& path) {
  ::unlink(path.c_str());
  return open(path, O_CREAT | O_EXCL);
}
Result<AppendFile> AppendFile::open(const std::string& path) { return open(path, O_APPEND); }

Result<AppendFile> AppendFile::open(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC | flags, 0644);
  if (fd < 0) {
    return Error{ErrorKind::Damaged, path + ": cannot write: " + std::strerror(errno)};
  }
  return AppendFile(path, fd, std::max<int64_t>(0, ::lseek(fd, 0, SEEK_END)));
}

AppendFile AppendFile::missing(const std::string& path, const std::string& cause) {
  AppendFile file(path, -1, 0);
  file.tell_loss(cause);
  return file;
}

Status AppendFile::shorten(const std::string& path, std::string_view kept) {
  TRIREME_TRY(file, open(path, 0));
  std::string_view rest = kept;
  while (!rest.empty()) {
    const auto at = off_t(kept.size() - rest.size());
    const ssize_t written = ::pwrite(file.fd_, rest.data(), rest.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return damaged(path + ": cannot write: " + std::strerror(errno));
    rest.remove_prefix(size_t(written));
  }
  if (::ftruncate(file.fd_, off_t(kept.size())) == 0) return Done{};
  return damaged(path + ": cannot shorten the file: " + std::strerror(errno));
}

AppendFile::AppendFile(std::string path, int fd, int64_t bytes)
    : path_(std::move(path)), fd_(fd), bytes_(bytes) {}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      bytes_(other.bytes_),
      loss_(std::move(other.loss_)),
      listeners_(std::move(other.listeners_)) {}

AppendFile::~AppendFile() {
  if (fd_ >= 0) ::close(fd_);
}

void AppendFile::tell_losses_to(std::vector<RunObserver*> listeners) {
  listeners_ = std::move(listeners);
  if (loss_.empty()) return;
  for (RunObserver* listener : listeners_) listener->on_message(loss_);
}

void AppendFile::append(std::string_view record) {
  if (fd_ < 0) return;
  std::string_view rest = record;
  while (!rest.empty()) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return drop_record(errno);
    rest.remove_prefix(size_t(written));
  }
  bytes_ += int64_t(record.size());
}

// The new file is created under another name first. So the old one stays if this fails.
Status AppendFile::rotate(const std::string& old_path) {
  const std::string fresh = temporary_name(path_);
  TRIREME_TRY(next, create(fresh));
  const bool is_moved =
      ::link(path_.c_str(), old_path.c_str()) == 0 && ::rename(fresh.c_str(), path_.c_str()) == 0;
  if (!is_moved) {
    const int cause = errno;
    ::unlink(fresh.c_str());
    return damaged(path_ + ": cannot be renamed to " + old_path + ": " + std::strerror(cause));
  }
  std::swap(fd_, next.fd_);
  bytes_ = 0;
  return Done{};
}

// The old file can be read even if it has no name any more.
Status AppendFile::restore() {
  if (fd_ >= 0 && is_still_at(fd_, path_)) return Done{};
  std::string content;
  if (fd_ >= 0) {
    TRIREME_TRY(text, read_text_file(fmt::format("/proc/self/fd/{}", fd_), kMostRestoredBytes));
    content = text.substr(0, size_t(bytes_));
  }
  TRIREME_TRY(next, create(path_));
  next.listeners_ = listeners_;
  next.append(content);
  std::swap(fd_, next.fd_);
  std::swap(bytes_, next.bytes_);
  loss_ = next.loss_;
  return Done{};
}

// Removes the incomplete record, so that the next one does not continue it.
void AppendFile::drop_record(int cause) {
  if (::ftruncate(fd_, bytes_) == 0) ::lseek(fd_, bytes_, SEEK_SET);
  tell_loss(fmt::format("{}: cannot write: {}", path_, std::strerror(cause)));
}

void AppendFile::tell_loss(const std::string& cause) {
  if (!loss_.empty()) return;
  loss_ = cause + "; training continues, but its metrics are lost until writing works again";
  for (RunObserver* listener : listeners_) listener->on_message(loss_);
}

}  // namespace trireme
