#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "base/input_file.h"
#include "base/leftovers.h"

namespace trireme {
namespace {

// A large file is handed to the disk in pieces of this size while it is written, so that no call
// waits long and the sync at the end has little left to do.
constexpr int64_t kWritebackBytes = int64_t{16} << 20;

Error file_error(const std::string& path, const char* action, ErrorKind kind) {
  return {kind, path + ": cannot " + action + ": " + std::strerror(errno)};
}

}  // namespace

Result<int> open_regular_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return file_error(path, "open", ErrorKind::Damaged);
  struct stat info {};
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) return fd;
  ::close(fd);
  return damaged(path + (S_ISDIR(info.st_mode) ? ": cannot read: Is a directory"
                                               : ": cannot read: not a regular file"));
}

AtomicFile::AtomicFile(std::string path, std::string temporary, int fd, Progress* progress)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd), progress_(progress) {}

Result<AtomicFile> AtomicFile::create(const std::string& path, Progress* progress) {
  const ShownCall call(progress, "open", path);
  std::string temporary;
  const int fd = create_temporary(path, O_WRONLY, 0644, temporary);
  if (fd < 0) return file_error(temporary, "create", ErrorKind::Damaged);
  return AtomicFile(path, std::move(temporary), fd, progress);
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)),
      progress_(other.progress_),
      written_bytes_(other.written_bytes_),
      writeback_begin_(other.writeback_begin_) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  std::swap(fd_, other.fd_);
  std::swap(progress_, other.progress_);
  std::swap(written_bytes_, other.written_bytes_);
  std::swap(writeback_begin_, other.writeback_begin_);
  return *this;
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  const ShownCall call(progress_, "write", path_);
  while (!bytes.empty()) {
    const size_t length = std::min(bytes.size(), static_cast<size_t>(kWritebackBytes));
    const ssize_t written = ::write(fd_, bytes.data(), length);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return file_error(temporary_, "write", ErrorKind::Damaged);
    bytes = bytes.subspan(static_cast<size_t>(written));
    written_bytes_ += written;
    if (progress_ != nullptr) progress_->advance();
    if (written_bytes_ - writeback_begin_ >= kWritebackBytes) TRIREME_TRY_DONE(start_writeback());
  }
  return Done{};
}

// Starts writing the newest bytes to the disk and waits for those before them. If the file system
// cannot do that, the sync at the end writes everything.
Status AtomicFile::start_writeback() {
  const ShownCall call(progress_, "sync_file_range", path_);
  const int64_t begin = std::exchange(writeback_begin_, written_bytes_);
  int failed = ::sync_file_range(fd_, begin, written_bytes_ - begin, SYNC_FILE_RANGE_WRITE);
  if (failed == 0 && begin > 0) {
    failed = ::sync_file_range(
        fd_, 0, begin,
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  }
  // The system reports the loss of a page only once, so this error must not be taken for a missing
  // feature.
  const bool is_lost = errno == EIO || errno == ENOSPC || errno == EDQUOT;
  if (failed != 0 && is_lost) return file_error(temporary_, "sync", ErrorKind::Damaged);
  return Done{};
}

Status AtomicFile::write(std::string_view text) { return write(std::as_bytes(std::span(text))); }

Status AtomicFile::write_at(int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return file_error(temporary_, "write", ErrorKind::Damaged);
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += written;
  }
  return Done{};
}

Status AtomicFile::commit() {
  std::optional<ShownCall> call(std::in_place, progress_, "fsync", path_);
  if (::fsync(fd_) != 0) return file_error(temporary_, "sync", ErrorKind::Damaged);
  call.emplace(progress_, "rename", path_);
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const Error error = file_error(path_, "replace", ErrorKind::Damaged);
    ::unlink(temporary_.c_str());
    return error;
  }
  const auto folder = std::filesystem::path(path_).parent_path();
  call.reset();
  return sync_folder(folder.empty() ? "." : folder.string(), progress_);
}

Status sync_folder(const std::string& path, Progress* progress) {
  const ShownCall call(progress, "fsync", path);
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return file_error(path, "open", ErrorKind::Damaged);
  const int failed = ::fsync(fd);
  ::close(fd);
  // Some file systems cannot sync a folder and return EINVAL; then nothing more can be done.
  if (failed != 0 && errno != EINVAL) return file_error(path, "sync", ErrorKind::Damaged);
  return Done{};
}

Result<std::string> read_text_file(const std::string& path, int64_t most_bytes) {
  TRIREME_TRY(file, InputFile::open(path));
  return file.read_all(most_bytes);
}

namespace {

// Returns the path that a chain of symbolic links leads to, even if nothing exists there.
Result<std::string> link_target(const std::string& path) {
  constexpr int kMostLinks = 40;  // as many as the kernel follows
  std::filesystem::path reached = path;
  for (int followed = 0; followed < kMostLinks; ++followed) {
    std::error_code is_no_link;
    const std::filesystem::path target = std::filesystem::read_symlink(reached, is_no_link);
    if (is_no_link) return reached.string();
    reached = reached.parent_path() / target;  // the target alone if it is absolute
  }
  errno = ELOOP;
  return file_error(path, "open", ErrorKind::Damaged);
}

// True for a device or a pipe, which a rename would replace by a file.
bool is_written_in_place(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

Status write_in_place(const std::string& path, std::string_view text, Progress* progress) {
  const ShownCall call(progress, "write", path);
  const int fd = ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return file_error(path, "open", ErrorKind::Damaged);
  Status done = Done{};
  while (!text.empty() && done.ok()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written >= 0) text.remove_prefix(static_cast<size_t>(written));
    if (written < 0 && errno != EINTR) done = file_error(path, "write", ErrorKind::Damaged);
  }
  ::close(fd);
  return done;
}

}  // namespace

Status write_file_atomically(const std::string& path, std::string_view text, Progress* progress) {
  if (is_written_in_place(path)) return write_in_place(path, text, progress);
  TRIREME_TRY(named, link_target(path));
  TRIREME_TRY(file, AtomicFile::create(named, progress));
  TRIREME_TRY_DONE(file.write(text));
  return file.commit();
}

Status make_folders_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (!error) return Done{};
  return Error{ErrorKind::Damaged,
               path + ": cannot make the folder " + folder.string() + ": " + error.message()};
}

}  // namespace trireme
