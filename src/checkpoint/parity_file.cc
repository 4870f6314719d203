#include "checkpoint/parity_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/hash.h"
#include "base/input_file.h"

namespace trireme {
namespace {

constexpr size_t kParityRead = size_t{256} << 10;

uint64_t place_of(const HostsRecord& record, int lane, int row) {
  return hash64(fmt::format("{} {} {} {} {} {}", record.step, record.job, record.epoch, record.own,
                            lane, row));
}

// Returns the hash of the first bytes of a file.
Result<uint64_t> hash_of_piece(const InputFile& file, int64_t bytes, std::span<std::byte> buffer,
                               Progress* progress) {
  Hasher64 hasher;
  for (int64_t at = 0; at < bytes;) {
    const auto piece = buffer.first(size_t(std::min<int64_t>(int64_t(buffer.size()), bytes - at)));
    TRIREME_TRY_DONE(file.read(at, piece));
    hasher.update(piece);
    at += int64_t(piece.size());
    if (progress != nullptr) progress->advance();
  }
  return hasher.digest();
}

// Closes a file that is open for writing.
struct OpenPiece {
  explicit OpenPiece(int descriptor) : fd(descriptor) {}
  ~OpenPiece() {
    if (fd >= 0) ::close(fd);
  }
  OpenPiece(const OpenPiece&) = delete;
  OpenPiece& operator=(const OpenPiece&) = delete;
  int fd;
};

}  // namespace

std::string parity_file_name(int lane, int row) {
  return fmt::format("parity-{:05}-{}", lane, row);
}

Status seal_parity_file(const std::string& folder, const HostsRecord& record, int lane, int row,
                        int64_t bytes, std::span<std::byte> buffer) {
  return seal_parity_at(folder + "/" + parity_file_name(lane, row), record, lane, row, bytes,
                        buffer);
}

Status seal_parity_at(const std::string& path, const HostsRecord& record, int lane, int row,
                      int64_t bytes, std::span<std::byte> buffer) {
  const auto failure = [&](const char* action) {
    return damaged(fmt::format("{}: cannot {}: {}", path, action, std::strerror(errno)));
  };
  const OpenPiece piece(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (piece.fd < 0) return failure("open");
  if (::ftruncate(piece.fd, bytes) != 0) return failure("set the length");
  TRIREME_TRY(file, InputFile::open(path));
  TRIREME_TRY(hash, hash_of_piece(file, bytes, buffer, nullptr));
  const uint64_t checksum = hash ^ place_of(record, lane, row);
  if (::pwrite(piece.fd, &checksum, sizeof checksum, bytes) != ssize_t(sizeof checksum)) {
    return failure("write");
  }
  return Done{};
}

Status check_parity_file(const std::string& folder, const HostsRecord& record, int lane, int row,
                         Progress* progress) {
  const std::string path = folder + "/" + parity_file_name(lane, row);
  TRIREME_TRY(file, InputFile::open(path));
  uint64_t stored = 0;
  const int64_t bytes = file.bytes() - int64_t(sizeof stored);
  if (bytes < 0) return damaged(path + ": is too short");
  std::vector<std::byte> buffer(kParityRead);
  TRIREME_TRY(hash, hash_of_piece(file, bytes, buffer, progress));
  TRIREME_TRY_DONE(file.read(bytes, std::as_writable_bytes(std::span(&stored, 1))));
  const uint64_t computed = hash ^ place_of(record, lane, row);
  if (stored == computed) return Done{};
  return damaged(fmt::format("{}: has checksum {}, its last bytes say {}", path, hex64(computed),
                             hex64(stored)));
}

}  // namespace trireme
