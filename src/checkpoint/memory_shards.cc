#include "checkpoint/memory_shards.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

namespace trireme {
namespace {

constexpr std::string_view kShardPrefix = "mapped-";

Error memory_error(const std::string& path, const char* action) {
  return damaged(fmt::format("{}: cannot {}: {}", path, action, std::strerror(errno)));
}

}  // namespace

MemoryShards::MemoryShards(std::string root, int rank, uint64_t number) {
  for (size_t i = 0; i < files_.size(); ++i) {
    files_[i].path = fmt::format("{}/{}{}-{}-{}", root, kShardPrefix, rank, number, i);
  }
}

MemoryShards::~MemoryShards() {
  for (File& file : files_) remove(file);
}

void MemoryShards::remove(File& file) {
  if (file.bytes != nullptr) ::munmap(file.bytes, size_t(file.size));
  if (file.size > 0) ::unlink(file.path.c_str());
  file.bytes = nullptr;
  file.size = 0;
}

// The pages are there before they are written: a page that is missing later would end the process.
Status MemoryShards::make(File& file, int64_t bytes) const {
  remove(file);
  const int fd = ::open(file.path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return memory_error(file.path, "create");
  const int failed = ::posix_fallocate(fd, 0, bytes);
  void* const mapped =
      failed != 0 ? MAP_FAILED
                  : ::mmap(nullptr, size_t(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (failed != 0) errno = failed;
  const Error error = memory_error(file.path, failed != 0 ? "allocate" : "map");
  ::close(fd);
  if (mapped == MAP_FAILED) {
    ::unlink(file.path.c_str());
    return error;
  }
  file.bytes = static_cast<std::byte*>(mapped);
  file.size = bytes;
  return Done{};
}

Result<std::span<std::byte>> MemoryShards::begin(const std::string& folder, const std::string& name,
                                                 int64_t bytes) {
  turn_ = 1 - turn_;
  File& file = current();
  if (!file.folder.empty()) ::unlink((file.folder + "/" + file.name).c_str());
  if (file.size != bytes) TRIREME_TRY_DONE(make(file, bytes));
  file.folder = folder;
  file.name = name;
  return std::span(file.bytes, size_t(file.size));
}

Status MemoryShards::finish() {
  const File& file = current();
  const std::string path = file.folder + "/" + file.name;
  if (::link(file.path.c_str(), path.c_str()) != 0) return memory_error(path, "link");
  return Done{};
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
