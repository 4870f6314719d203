#include "chaos/flip_bit.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "checkpoint/checkpoint_index.h"

namespace trireme {

namespace fs = std::filesystem;

namespace {

// XORs the byte at `offset` with `mask`.
Status change_byte(const std::string& path, int64_t offset, unsigned char mask) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return damaged(fmt::format("{}: {}", path, std::strerror(errno)));
  unsigned char byte = 0;
  bool is_done = ::pread(fd, &byte, 1, offset) == 1;
  byte ^= mask;
  is_done = is_done && ::pwrite(fd, &byte, 1, offset) == 1;
  ::close(fd);
  if (!is_done) return damaged(fmt::format("{}: a byte cannot be changed", path));
  return Done{};
}

}  // namespace

std::string newest_checkpoint(const std::string& root, int least) {
  std::error_code error;
  std::vector<std::string> folders;
  fs::directory_iterator it(root, error);
  for (const fs::directory_iterator end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (step_of_folder_name(name) >= 0) folders.push_back(it->path().string());
  }
  if (int(folders.size()) < std::max(least, 1)) return "";
  return *std::max_element(folders.begin(), folders.end());
}

Result<std::string> flip_bit(const std::string& folder, const PlannedFault& fault) {
  std::error_code error;
  std::vector<std::pair<std::string, int64_t>> files;  // with their sizes
  int64_t all_bytes = 0;
  fs::directory_iterator it(folder, error);
  for (const fs::directory_iterator end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const auto bytes = int64_t(it->file_size(ignored));
    if (ignored || !it->is_regular_file(ignored) || bytes <= 0) continue;
    files.emplace_back(it->path().filename().string(), bytes);
    all_bytes += bytes;
  }
  if (files.empty()) return damaged(folder + " has no file that could be changed");
  std::sort(files.begin(), files.end());
  auto byte = int64_t(chosen(fault.place, size_t(all_bytes)));
  for (const auto& [name, bytes] : files) {
    if (byte >= bytes) {
      byte -= bytes;
      continue;
    }
    const int bit = int(fault.file % 8);
    TRIREME_TRY_DONE(change_byte(folder + "/" + name, byte, static_cast<unsigned char>(1 << bit)));
    return fmt::format("{}, bit {} of byte {}", name, bit, byte);
  }
  return damaged(folder + " has changed meanwhile");
}

}  // namespace trireme
