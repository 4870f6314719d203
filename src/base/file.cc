#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace trireme {
namespace {

Error file_error(const std::string& path, const char* action, ErrorKind kind) {
  return {kind, path + ": cannot " + action + ": " + std::strerror(errno)};
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return file_error(path, "open", ErrorKind::Damaged);
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    if (S_ISDIR(info.st_mode)) errno = EISDIR;
    const Error error = file_error(path, "read", ErrorKind::Damaged);
    ::close(fd);
    return error;
  }
  const size_t size = static_cast<size_t>(info.st_size);
  if (size == 0) {
    ::close(fd);
    return MappedFile(nullptr, 0);
  }
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  ::close(fd);
  if (data == MAP_FAILED) return file_error(path, "map", ErrorKind::Damaged);
  return MappedFile(static_cast<const std::byte*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

AtomicFile::AtomicFile(std::string path, std::string temporary, int fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  std::string temporary = path + ".tmp-" + std::to_string(::getpid());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return file_error(temporary, "create", ErrorKind::Runtime);
  return AtomicFile(path, std::move(temporary), fd);
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  std::swap(fd_, other.fd_);
  return *this;
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return file_error(temporary_, "write", ErrorKind::Runtime);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return Done{};
}

Status AtomicFile::write(std::string_view text) { return write(std::as_bytes(std::span(text))); }

Status AtomicFile::write_at(int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return file_error(temporary_, "write", ErrorKind::Runtime);
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += written;
  }
  return Done{};
}

Status AtomicFile::commit() {
  if (::fsync(fd_) != 0) return file_error(temporary_, "sync", ErrorKind::Runtime);
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const Error error = file_error(path_, "replace", ErrorKind::Runtime);
    ::unlink(temporary_.c_str());
    return error;
  }
  const auto folder = std::filesystem::path(path_).parent_path();
  return sync_folder(folder.empty() ? "." : folder.string());
}

Status sync_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return file_error(path, "open", ErrorKind::Runtime);
  const int failed = ::fsync(fd);
  ::close(fd);
  // Some file systems cannot sync a folder and say EINVAL: then there is nothing more to do.
  if (failed != 0 && errno != EINVAL) return file_error(path, "sync", ErrorKind::Runtime);
  return Done{};
}

Result<std::string> read_text_file(const std::string& path) {
  TRIREME_TRY(file, MappedFile::open(path));
  return std::string(file.text());
}

Status write_file_atomically(const std::string& path, std::string_view text) {
  TRIREME_TRY(file, AtomicFile::create(path));
  TRIREME_TRY_DONE(file.write(text));
  return file.commit();
}

Status make_folders_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (!error) return Done{};
  return Error{ErrorKind::Runtime,
               path + ": cannot make the folder " + folder.string() + ": " + error.message()};
}

}  // namespace trireme
