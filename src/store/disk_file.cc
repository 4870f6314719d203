#include "store/disk_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/file.h"

namespace trireme {
namespace {

Error disk_error(const std::string& path, std::string_view action) {
  return damaged(fmt::format("{}: cannot {}: {}", path, action, std::strerror(errno)));
}

Status write_all(int fd, const std::string& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return disk_error(path, "write");
    bytes = bytes.subspan(size_t(written));
  }
  return Done{};
}

}  // namespace

Status fault_before(DiskFaults* faults, DiskCall call, const std::string& path) {
  size_t bytes = 0;
  return faults == nullptr ? Status(Done{}) : faults->before(call, path, bytes);
}

Result<DiskFile> DiskFile::create(const std::string& path, DiskFaults* faults) {
  TRIREME_TRY_DONE(fault_before(faults, DiskCall::Create, path));
  const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
  const int fd = ::open(path.c_str(), flags, 0644);
  if (fd < 0) return disk_error(path, "create");
  return DiskFile(path, fd, faults);
}

Result<DiskFile> DiskFile::open_at(const std::string& path, int64_t bytes, DiskFaults* faults) {
  TRIREME_TRY_DONE(fault_before(faults, DiskCall::Create, path));
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return disk_error(path, "open");
  DiskFile file(path, fd, faults);
  if (::ftruncate(fd, bytes) != 0 || ::lseek(fd, bytes, SEEK_SET) < 0) {
    return disk_error(path, "cut");
  }
  return file;
}

DiskFile::DiskFile(DiskFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), faults_(other.faults_) {}

DiskFile& DiskFile::operator=(DiskFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(faults_, other.faults_);
  return *this;
}

DiskFile::~DiskFile() {
  if (fd_ >= 0) ::close(fd_);
}

Status DiskFile::write(std::span<const std::span<const std::byte>> parts) {
  for (const std::span<const std::byte> part : parts) {
    size_t bytes = part.size();
    if (faults_ != nullptr) {
      const Status status = faults_->before(DiskCall::Write, path_, bytes);
      if (!status.ok()) return status;
    }
    TRIREME_TRY_DONE(write_all(fd_, path_, part.first(bytes)));
    if (bytes < part.size()) return damaged(path_ + ": cannot write: the write was cut off");
  }
  return Done{};
}

Status DiskFile::write(std::string_view text) {
  const std::span<const std::byte> part = std::as_bytes(std::span(text));
  return write(std::span(&part, 1));
}

Status DiskFile::write_at(int64_t offset, std::span<const std::byte> bytes) {
  size_t allowed = bytes.size();
  if (faults_ != nullptr) TRIREME_TRY_DONE(faults_->before(DiskCall::Write, path_, allowed));
  const bool is_whole = allowed == bytes.size();
  bytes = bytes.first(allowed);
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), off_t(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return disk_error(path_, "write");
    bytes = bytes.subspan(size_t(written));
    offset += written;
  }
  return is_whole ? Status(Done{}) : damaged(path_ + ": cannot write: the write was cut off");
}

Status DiskFile::sync() {
  TRIREME_TRY_DONE(fault_before(faults_, DiskCall::Sync, path_));
  if (::fdatasync(fd_) != 0) return disk_error(path_, "sync");
  return Done{};
}

Status sync_folder_of(const std::string& path, DiskFaults* faults) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  TRIREME_TRY_DONE(fault_before(faults, DiskCall::SyncFolder, folder));
  return sync_folder(folder.empty() ? "." : folder);
}

Status replace_file(const std::string& path, const std::string& fresh,
                    const std::function<Status(DiskFile&)>& write, DiskFaults* faults) {
  const Status status = [&]() -> Status {
    TRIREME_TRY(file, DiskFile::create(fresh, faults));
    TRIREME_TRY_DONE(write(file));
    TRIREME_TRY_DONE(file.sync());
    TRIREME_TRY_DONE(fault_before(faults, DiskCall::Rename, path));
    if (::rename(fresh.c_str(), path.c_str()) != 0) return disk_error(path, "replace");
    return Done{};
  }();
  if (!status.ok()) {
    ::unlink(fresh.c_str());  // a full disk gets its room back
    return status;
  }
  return sync_folder_of(path, faults);
}

Status replace_file(const std::string& path, std::string_view text, DiskFaults* faults) {
  return replace_file(
      path, path + ".new", [&](DiskFile& file) { return file.write(text); }, faults);
}

}  // namespace trireme
