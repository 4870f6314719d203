#include "checkpoint/read_back.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "checkpoint/checkpoint_index.h"

namespace trireme {
namespace {

constexpr int64_t kBufferBytes = 1 << 20;

struct Interrupted {};
using Problem = std::runtime_error;  // used only in this file

class File {
 public:
  explicit File(std::string path) : path_(std::move(path)) {
    fd_ = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat info {};
    if (fd_ < 0 || ::fstat(fd_, &info) != 0) fail("cannot read");
    bytes_ = int64_t(info.st_size);
    forget();
  }
  ~File() {
    if (fd_ < 0) return;
    forget();
    ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int64_t bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

  void read(int64_t offset, std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t count = ::pread(fd_, bytes.data(), bytes.size(), offset);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail(fmt::format("cannot read at byte {}", offset));
      if (count == 0) throw Problem(fmt::format("{}: ends at byte {}", path_, offset));
      bytes = bytes.subspan(size_t(count));
      offset += count;
    }
  }

 private:
  // Drops the file from the page cache, so that the next read comes from the disk.
  void forget() const { ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED); }
  [[noreturn]] void fail(const std::string& what) const {
    const int cause = errno;
    if (fd_ >= 0) ::close(fd_);
    throw Problem(fmt::format("{}: {}: {}", path_, what, std::strerror(cause)));
  }

  std::string path_;
  int fd_ = -1;
  int64_t bytes_ = 0;
};

// A range of a file that has a checksum.
struct Part {
  int64_t offset = 0;
  int64_t bytes = 0;
  uint64_t checksum = 0;
  std::string name;
};

void check_size(const File& file, int64_t bytes) {
  if (file.bytes() == bytes) return;
  throw Problem(fmt::format("{}: {} bytes, {} were written", file.path(), file.bytes(), bytes));
}

void check_part(const File& file, const Part& part, const std::function<bool()>& should_stop,
                std::vector<std::byte>& buffer) {
  Hasher64 hasher;
  for (int64_t done = 0; done < part.bytes;) {
    if (should_stop && should_stop()) throw Interrupted{};
    const int64_t size = std::min(kBufferBytes, part.bytes - done);
    const auto piece = std::span(buffer).first(size_t(size));
    file.read(part.offset + done, piece);
    hasher.update(piece);
    done += size;
  }
  if (hasher.digest() == part.checksum) return;
  throw Problem(fmt::format("{}: {} (bytes {} to {}) has checksum {}, {} was written", file.path(),
                            part.name, part.offset, part.offset + part.bytes,
                            hex64(hasher.digest()), hex64(part.checksum)));
}

// The part "the header": the eight bytes of its length, and its text.
Part header_of(const File& shard, uint64_t checksum) {
  std::array<std::byte, 8> length{};
  shard.read(0, length);
  uint64_t bytes = 0;
  for (size_t i = length.size(); i-- > 0;) bytes = bytes << 8 | uint64_t(length[i]);
  if (bytes > uint64_t(shard.bytes()) - length.size()) {
    throw Problem(shard.path() + ": its header would reach over its end");
  }
  return {0, int64_t(bytes + length.size()), checksum, "the header"};
}

// Returns the parts of every shard in the order of the file.
std::map<std::string, std::vector<Part>> slices_of_shards(const CheckpointIndex& index) {
  std::map<std::string, std::vector<Part>> shards;
  for (const auto& [name, tensor] : index.contents.tensors) {
    for (const StoredSlice& stored : tensor.slices) {
      shards[stored.file].push_back({stored.offset,
                                     stored.slice.num_elements() * size_of(tensor.dtype),
                                     stored.checksum, "tensor " + name + stored.slice.to_string()});
    }
  }
  for (auto& [name, parts] : shards) std::ranges::sort(parts, {}, &Part::offset);
  return shards;
}

void check_files(const std::string& folder, const CheckpointIndex& index,
                 const std::function<bool()>& should_stop) {
  std::vector<std::byte> buffer(size_t{kBufferBytes});
  auto shards = slices_of_shards(index);
  for (const auto& [name, stored] : index.contents.shards) {
    const File shard(folder + "/" + name);
    check_size(shard, stored.bytes);
    check_part(shard, header_of(shard, stored.checksum), should_stop, buffer);
    for (const Part& part : shards[name]) check_part(shard, part, should_stop, buffer);
  }
  for (const auto& [name, stored] : index.attached) {
    const File file(folder + "/" + name);
    check_size(file, stored.bytes);
    check_part(file, {0, stored.bytes, stored.checksum, "the file"}, should_stop, buffer);
  }
}

}  // namespace

ReadBack read_back(const std::string& folder, const std::function<bool()>& should_stop) {
  const std::string path = folder + "/index.json";
  const Result<std::string> text = read_text_file(path);
  if (!text.ok()) return {.problem = text.error().message};
  const Result<CheckpointIndex> index = parse_index(*text);
  if (!index.ok()) return {.problem = with_context(index.error(), path).message};
  try {
    check_files(folder, *index, should_stop);
  } catch (const Problem& problem) {
    return {.problem = problem.what()};
  } catch (const Interrupted&) {
    return {.is_done = false};
  }
  return {};
}

}  // namespace trireme
