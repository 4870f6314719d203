#include "runtime/offload_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "base/leftovers.h"
#include "base/units.h"

namespace trireme {

OffloadFile::OffloadFile(std::string path, int64_t bytes) : path_(std::move(path)), bytes_(bytes) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  remove_leftovers_of(path_);
  std::string made;
  fd_ = create_temporary(path_, O_RDWR, 0600, made);
  if (fd_ < 0) fail("cannot make the file; choose another memory.offload_folder", errno);
  ::unlink(made.c_str());
  // Reserved now: a disk that is too small is found before step 1, not in the middle of one.
  const int refused = ::posix_fallocate(fd_, 0, bytes_);
  if (refused != 0) {
    ::close(fd_);
    fail(fmt::format("cannot reserve {} for what memory.offload keeps there; make room, or choose "
                     "another memory.offload_folder",
                     format_bytes(bytes_)),
         refused);
  }
  void* data = ::mmap(nullptr, size_t(bytes_), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (data == MAP_FAILED) {
    const int cause = errno;
    ::close(fd_);
    fail("cannot map the file", cause);
  }
  mapped_ = static_cast<std::byte*>(data);
}

OffloadFile::~OffloadFile() {
  ::munmap(mapped_, size_t(bytes_));
  ::close(fd_);
}

void OffloadFile::release_pages() { ::madvise(mapped_, size_t(bytes_), MADV_DONTNEED); }

void OffloadFile::read(int64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(fd_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(fmt::format("cannot read at byte {}", offset), errno);
    if (count == 0) {
      fail(fmt::format("ends at byte {} of {}: it was shortened while the run used it", offset,
                       bytes_),
           0);
    }
    bytes = bytes.subspan(size_t(count));
    offset += count;
  }
}

void OffloadFile::write(int64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(fmt::format("cannot write at byte {}", offset), errno);
    bytes = bytes.subspan(size_t(count));
    offset += count;
  }
}

void OffloadFile::expect_whole() const {
  struct stat info {};
  if (::fstat(fd_, &info) != 0) fail("cannot be examined", errno);
  if (int64_t(info.st_size) >= bytes_) return;
  fail(fmt::format("ends at byte {} of {}: it was shortened while the run used it",
                   int64_t(info.st_size), bytes_),
       0);
}

void OffloadFile::fail(const std::string& what, int error) const {
  throw IoError(error == 0 ? fmt::format("{}: {}", path_, what)
                           : fmt::format("{}: {} ({})", path_, what, std::strerror(error)));
}

}  // namespace trireme
