#include "checkpoint/memory_shards.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/align.h"
#include "device/huge_pages.h"

namespace trireme {
namespace {

constexpr std::string_view kShardPrefix = "mapped-";
// The system moves so many bytes at a time, by one entry of a page table, if both addresses are on
// such a border. A huge page has as many.
constexpr int64_t kPageTableBytes = kHugePageBytes;

Error memory_error(const std::string& path, const char* action) {
  return damaged(fmt::format("{}: cannot {}: {}", path, action, std::strerror(errno)));
}

// Gives a new file one small page where each of its huge pages will be, because a huge page can
// only take the place of pages that are there. Returns 0 or an error number.
int allocate_first_pages(int fd, int64_t bytes) {
  struct statvfs room = {};
  if (::fstatvfs(fd, &room) != 0) return errno;
  if (uint64_t(bytes) / room.f_frsize > room.f_bavail) return ENOSPC;
  if (::ftruncate(fd, bytes) != 0) return errno;
  int failed = 0;
  for (int64_t at = 0; failed == 0 && at + kPageTableBytes <= bytes; at += kPageTableBytes) {
    failed = ::posix_fallocate(fd, at, 1);
  }
  return failed;
}

// Gives a mapped file all its memory, so that none is missing later, which would end the process.
// An update reads and writes six places of such files at a time, and with small pages it would wait
// for the tables that find them. Huge pages are also made faster. Systems without them refuse.
// Returns 0 or an error number.
int allocate_mapped(int fd, void* mapped, int64_t bytes) {
  collapse_pages(mapped, bytes);
  const int failed = ::posix_fallocate(fd, 0, bytes);
  if (failed == 0) ::madvise(mapped, size_t(bytes), MADV_POPULATE_WRITE);
  return failed;
}

}  // namespace

MemoryShards::MemoryShards(std::string root, int rank, uint64_t number) {
  for (size_t i = 0; i < files_.size(); ++i) {
    files_[i].path = path_of(root, rank, number, int(i));
  }
}

std::string MemoryShards::path_of(const std::string& root, int rank, uint64_t number, int file) {
  return fmt::format("{}/{}{}-{}-{}", root, kShardPrefix, rank, number, file);
}

MemoryShards::~MemoryShards() {
  for (File& file : files_) remove(file);
  if (reserved_ != nullptr) ::munmap(reserved_, size_t(reserved_bytes_));
}

void MemoryShards::remove(File& file) {
  if (file.bytes != nullptr) ::munmap(file.bytes, size_t(file.size));
  if (file.size > 0) ::unlink(file.path.c_str());
  file.bytes = nullptr;
  file.size = 0;
}

Status MemoryShards::make(File& file, int64_t bytes, std::byte* at) {
  remove(file);
  const std::string root = file.path.substr(0, file.path.rfind('/'));
  if (::mkdir(root.c_str(), 0700) != 0 && errno != EEXIST) return memory_error(root, "create");
  const int fd = ::open(file.path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return memory_error(file.path, "create");
  const auto give_up = [&](const char* action, int number) {
    ::close(fd);
    ::unlink(file.path.c_str());
    errno = number;
    return memory_error(file.path, action);
  };
  if (const int failed = allocate_first_pages(fd, bytes)) return give_up("allocate", failed);
  const int flags = MAP_SHARED | (at == nullptr ? 0 : MAP_FIXED);
  void* const mapped = ::mmap(at, size_t(bytes), PROT_READ | PROT_WRITE, flags, fd, 0);
  if (mapped == MAP_FAILED) return give_up("map", errno);
  if (const int failed = allocate_mapped(fd, mapped, bytes)) {
    if (at == nullptr) ::munmap(mapped, size_t(bytes));  // else the place stays reserved
    return give_up("allocate", failed);
  }
  ::close(fd);
  file.bytes = static_cast<std::byte*>(mapped);
  file.size = bytes;
  return Done{};
}

Result<std::span<std::byte>> MemoryShards::hold_state(int64_t bytes) {
  const int64_t place = round_up(bytes, kPageTableBytes);
  reserved_bytes_ = 4 * place + kPageTableBytes;
  void* const reserved = ::mmap(nullptr, size_t(reserved_bytes_), PROT_NONE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return memory_error(files_[0].path, "reserve addresses for");
  reserved_ = static_cast<std::byte*>(reserved);
  first_ = reserved_ + kPageTableBytes - reinterpret_cast<uintptr_t>(reserved_) % kPageTableBytes;
  spare_ = first_ + 3 * place;
  for (int64_t i = 0; i < 2; ++i) {
    TRIREME_TRY_DONE(make(files_[size_t(i)], bytes, first_ + i * place));
  }
  TRIREME_TRY_DONE(exchange_pages(files_[0], files_[1]));
  begun_ = newest_;
  return std::span(files_[size_t(newest_)].bytes, size_t(bytes));
}

Status MemoryShards::add_file() {
  if (spare_ == nullptr || num_files_ > 2) return Done{};
  const int64_t bytes = files_[0].size;
  TRIREME_TRY_DONE(make(files_[2], bytes, first_ + 2 * round_up(bytes, kPageTableBytes)));
  num_files_ = 3;
  return Done{};
}

bool MemoryShards::may_be_pending() const {
  const bool is_in_place = spare_ != nullptr && newest_ == pending_;
  return !is_in_place || num_files_ > 2;
}

// Each move leaves its addresses reserved, so that no other thread gets them meanwhile. The pages
// stay where they are; only the tables that find them change.
Status MemoryShards::exchange_pages(File& a, File& b) {
  const auto size = size_t(a.size);
  const auto move = [&](std::byte* from, std::byte* to) {
    constexpr int kFlags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
    return ::mremap(from, size, size, kFlags, to) == to;
  };
  if (!move(a.bytes, spare_) || !move(b.bytes, a.bytes) || !move(spare_, b.bytes)) {
    return memory_error(a.path, "exchange the pages of");
  }
  std::swap(a.bytes, b.bytes);
  return Done{};
}

// A file of which no checkpoint needs the content.
int MemoryShards::next_file() const {
  const bool is_held = spare_ != nullptr;
  if (is_held && newest_ != pending_ && newest_ != committed_) return newest_;
  const int num_files = num_files_;
  for (int i = 1; i < num_files; ++i) {
    const int file = (newest_ + i) % num_files;
    if (file != pending_ && file != committed_) return file;
  }
  return (newest_ + 1) % num_files;
}

void MemoryShards::unlink_from_checkpoint(File& file) {
  if (!file.folder.empty()) ::unlink((file.folder + "/" + file.name).c_str());
  file.folder.clear();
}

Result<std::span<std::byte>> MemoryShards::begin(int64_t bytes) {
  begun_ = next_file();
  File& file = files_[size_t(begun_)];
  unlink_from_checkpoint(file);
  if (file.size != bytes) TRIREME_TRY_DONE(make(file, bytes, nullptr));
  return std::span(file.bytes, size_t(file.size));
}

Status MemoryShards::take() {
  if (begun_ == newest_) return Done{};
  if (spare_ != nullptr) {
    TRIREME_TRY_DONE(exchange_pages(files_[size_t(begun_)], files_[size_t(newest_)]));
  }
  newest_ = begun_;
  return Done{};
}

int MemoryShards::set_pending(const std::string& folder, const std::string& name) {
  pending_ = newest_;
  File& file = files_[size_t(newest_)];
  file.folder = folder;
  file.name = name;
  return newest_;
}

void MemoryShards::note_committed(const std::string& folder) {
  committed_ = std::exchange(pending_, -1);
  if (committed_ >= 0) files_[size_t(committed_)].folder = folder;
}

void MemoryShards::drop_pending() {
  const int dropped = std::exchange(pending_, -1);
  if (dropped >= 0) unlink_from_checkpoint(files_[size_t(dropped)]);
}

// A new checkpoint may get the name of one that was removed.
void MemoryShards::forget_checkpoints() {
  committed_ = -1;
  for (File& file : files_) file.folder.clear();
}

void remove_memory_shards(const std::string& root) {
  std::error_code error, ignored;
  for (const auto& entry : std::filesystem::directory_iterator(root, error)) {
    if (entry.path().filename().string().starts_with(kShardPrefix)) {
      std::filesystem::remove(entry.path(), ignored);
    }
  }
}

}  // namespace trireme
