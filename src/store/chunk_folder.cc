#include "store/chunk_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/hash.h"
#include "store/chunk_format.h"
#include "store/disk_file.h"
#include "store/folder_identity.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Reads from `offset` on until `bytes` are full or the file ends. Returns the number of bytes, or
// -1.
ssize_t read_fully(int fd, uint64_t offset, std::span<std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::pread(fd, bytes.data() + done, bytes.size() - done, off_t(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += size_t(got);
  }
  return ssize_t(done);
}

// BLOCK.CHUNK with sixteen hexadecimal digits, a dot and decimal digits.
std::optional<ChunkName> parse_name(const std::string& file) {
  ChunkName name;
  if (file.size() < 18 || file[16] != '.') return std::nullopt;
  const char* const text = file.data();
  const auto block = std::from_chars(text, text + 16, name.block, 16);
  const auto chunk = std::from_chars(text + 17, text + file.size(), name.chunk);
  const bool is_whole = block.ptr == text + 16 && chunk.ptr == text + file.size() &&
                        block.ec == std::errc() && chunk.ec == std::errc() && name.chunk >= 0;
  return is_whole ? std::optional(name) : std::nullopt;
}

}  // namespace

std::string ChunkFolder::path_of(ChunkName name) const {
  return fmt::format("{}/chunks/{:02x}/{:016x}.{}", folder_, hash64(hex64(name.block)) & 255,
                     name.block, name.chunk);
}

Status ChunkFolder::make_folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  const std::string chunks = fs::path(folder).parent_path().string();
  for (const std::string& made : {chunks, folder}) {
    {
      const std::lock_guard lock(mutex_);
      if (durable_folders_.contains(made)) continue;
    }
    if (::mkdir(made.c_str(), 0755) != 0 && errno != EEXIST) {
      return damaged(fmt::format("{}: cannot create: {}", made, std::strerror(errno)));
    }
    // The process that made the folder may have ended before it was synced. Other writes continue
    // meanwhile.
    TRIREME_TRY_DONE(sync_folder_of(made, faults_));
    const std::lock_guard lock(mutex_);
    durable_folders_.insert(made);
  }
  return Done{};
}

// The file of a chunk that is open for reading.
struct ChunkFolder::OpenChunk {
  OpenChunk() = default;
  OpenChunk(const OpenChunk&) = delete;
  ~OpenChunk() {
    if (fd >= 0) ::close(fd);
  }
  // Fills `bytes` from an offset in the chunk on; checksums of pieces follow the chunk.
  ChunkRead read(uint64_t offset, std::span<std::byte> bytes) const {
    const ssize_t got = read_fully(fd, sizeof(ChunkHeader) + offset, bytes);
    if (got < 0) {
      return {ChunkState::Unreadable,
              fmt::format("{}: cannot read: {}", path, std::strerror(errno))};
    }
    if (got == ssize_t(bytes.size())) return {};
    return {ChunkState::Damaged, path + ": is cut off or has a wrong header"};
  }
  // Reads the checksums of the pieces and compares their own checksum.
  ChunkRead read_pieces(std::vector<uint64_t>& pieces) const {
    if (header.piece_bytes == 0) return {};
    pieces.resize((header.bytes + header.piece_bytes - 1) / header.piece_bytes);
    const auto bytes = std::as_writable_bytes(std::span(pieces));
    ChunkRead read = this->read(header.bytes, bytes);
    if (read.state == ChunkState::Intact && hash64(bytes) != header.pieces_checksum) {
      return {ChunkState::Damaged, path + ": the checksums of its pieces are wrong"};
    }
    return read;
  }

  std::string path;
  int fd = -1;
  ChunkHeader header;
};

Status ChunkFolder::write(ChunkName name, std::span<const std::byte> bytes, uint64_t checksum) {
  const std::string path = path_of(name);
  TRIREME_TRY_DONE(make_folder_of(path));
  const auto write = [&](DiskFile& file) { return write_file(file, name, bytes, checksum); };
  // A write that comes late must not damage what another one has written meanwhile.
  return replace_file(path, fmt::format("{}.{}.new", path, num_writes_++), write, faults_);
}

// The header is written last, because it has a checksum of the checksums of all pieces.
Status ChunkFolder::write_file(DiskFile& file, ChunkName name, std::span<const std::byte> bytes,
                               uint64_t checksum) const {
  ChunkHasher hasher(bytes.size());
  int64_t end = sizeof(ChunkHeader);
  for (size_t done = 0; done < bytes.size(); done += kCachedPartBytes) {
    const auto part = bytes.subspan(done, std::min(kCachedPartBytes, bytes.size() - done));
    hasher.update(part);
    TRIREME_TRY_DONE(file.write_at(end, part));
    end += int64_t(part.size());
  }
  if (hasher.whole() != checksum) {
    return damaged(path_of(name) + ": the bytes to write do not have their checksum");
  }
  const auto pieces = std::as_bytes(hasher.pieces());
  if (!pieces.empty()) TRIREME_TRY_DONE(file.write_at(end, pieces));
  const ChunkHeader header =
      header_of(store_, name, bytes.size(), checksum, pieces.empty() ? 0 : kChunkPieceBytes,
                pieces.empty() ? 0 : hash64(pieces));
  return file.write_at(0, bytes_of_header(header));
}

ChunkRead ChunkFolder::open_file(ChunkName name, OpenChunk& chunk) const {
  chunk.path = path_of(name);
  const std::string& path = chunk.path;
  if (const Status fault = fault_before(faults_, DiskCall::Read, path); !fault.ok()) {
    return {ChunkState::Unreadable, fault.error().message};
  }
  chunk.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (chunk.fd < 0) {
    const bool has_no_file = errno == ENOENT;
    const std::string why = fmt::format("{}: cannot open: {}", path, std::strerror(errno));
    // A folder that is gone as a whole may be mounted again.
    const bool is_missing = has_no_file && ::access(identity_path(folder_).c_str(), R_OK) == 0;
    return {is_missing ? ChunkState::Missing : ChunkState::Unreadable, why};
  }
  const ssize_t got = read_fully(chunk.fd, 0, std::as_writable_bytes(std::span(&chunk.header, 1)));
  if (got < 0) {
    return {ChunkState::Unreadable, fmt::format("{}: cannot read: {}", path, std::strerror(errno))};
  }
  if (got == ssize_t(sizeof(ChunkHeader))) return {};
  return {ChunkState::Damaged, path + ": is cut off or has a wrong header"};
}

ChunkRead ChunkFolder::compare_header(ChunkName name, uint64_t bytes, uint64_t checksum,
                                      const OpenChunk& chunk) const {
  const ChunkHeader& header = chunk.header;
  const ChunkHeader wanted =
      header_of(store_, name, bytes, checksum, header.piece_bytes, header.pieces_checksum);
  const bool has_valid_pieces = header.piece_bytes == 0 || header.piece_bytes == kChunkPieceBytes;
  if (has_valid_pieces && std::memcmp(&header, &wanted, sizeof(header)) == 0) return {};
  return {ChunkState::Damaged, chunk.path + ": is cut off or has a wrong header"};
}

ChunkRead ChunkFolder::open_chunk(ChunkName name, uint64_t bytes, uint64_t checksum,
                                  OpenChunk& chunk) const {
  ChunkRead read = open_file(name, chunk);
  return read.state == ChunkState::Intact ? compare_header(name, bytes, checksum, chunk) : read;
}

// Returns the bytes of a chunk whose header was compared.
ChunkRead ChunkFolder::read_whole(const OpenChunk& chunk, std::span<std::byte> bytes) {
  ChunkRead read;
  Hasher64 hasher;
  for (size_t done = 0; done < bytes.size(); done += kCachedPartBytes) {
    const auto part = bytes.subspan(done, std::min(kCachedPartBytes, bytes.size() - done));
    read = chunk.read(done, part);
    if (read.state != ChunkState::Intact) return read;
    hasher.update(part);
  }
  std::vector<uint64_t> pieces;
  read = chunk.read_pieces(pieces);
  if (read.state == ChunkState::Intact && hasher.digest() != chunk.header.checksum) {
    return {ChunkState::Damaged, chunk.path + ": has a wrong checksum"};
  }
  return read;
}

ChunkRead ChunkFolder::read(ChunkName name, std::span<std::byte> bytes, uint64_t checksum) {
  OpenChunk chunk;
  ChunkRead read = open_chunk(name, bytes.size(), checksum, chunk);
  return read.state == ChunkState::Intact ? read_whole(chunk, bytes) : read;
}

ChunkRead ChunkFolder::check(ChunkName name, std::span<std::byte> room) {
  OpenChunk chunk;
  ChunkRead read = open_file(name, chunk);
  if (read.state != ChunkState::Intact) return read;
  ::posix_fadvise(chunk.fd, 0, 0, POSIX_FADV_DONTNEED);
  const ChunkHeader& header = chunk.header;
  if (header.bytes > room.size()) {
    return {ChunkState::Damaged, chunk.path + ": is cut off or has a wrong header"};
  }
  read = compare_header(name, header.bytes, header.checksum, chunk);
  return read.state == ChunkState::Intact ? read_whole(chunk, room.first(header.bytes)) : read;
}

ChunkRead ChunkFolder::read_part(ChunkName name, const ChunkPart& part,
                                 std::span<std::byte> bytes) {
  OpenChunk chunk;
  ChunkRead read = open_chunk(name, part.chunk_bytes, part.checksum, chunk);
  if (read.state != ChunkState::Intact) return read;
  if (chunk.header.piece_bytes == 0) {
    std::vector<std::byte> whole(part.chunk_bytes);
    read = read_whole(chunk, whole);
    std::memcpy(bytes.data(), whole.data() + part.offset, bytes.size());
    return read;
  }
  std::vector<uint64_t> pieces;
  read = chunk.read_pieces(pieces);
  if (read.state == ChunkState::Intact) read = chunk.read(part.offset, bytes);
  if (read.state != ChunkState::Intact) return read;
  for (size_t begin = 0; begin < bytes.size(); begin += kChunkPieceBytes) {
    const auto piece =
        bytes.subspan(begin, std::min<size_t>(kChunkPieceBytes, bytes.size() - begin));
    const size_t number = (part.offset + begin) / kChunkPieceBytes;
    if (piece_checksum(number, piece) != pieces[number]) {
      return {ChunkState::Damaged,
              fmt::format("{}: piece {} has a wrong checksum", chunk.path, number)};
    }
  }
  return read;
}

Status ChunkFolder::remove(ChunkName name) {
  const std::string path = path_of(name);
  TRIREME_TRY_DONE(fault_before(faults_, DiskCall::Remove, path));
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return Done{};
  return damaged(fmt::format("{}: cannot remove: {}", path, std::strerror(errno)));
}

Result<std::vector<ChunkName>> ChunkFolder::list() {
  std::vector<ChunkName> names;
  TRIREME_TRY_DONE(for_each_file([&](const fs::path& path) -> Status {
    if (const auto name = parse_name(path.filename().string())) names.push_back(*name);
    return Done{};
  }));
  return names;
}

Result<int64_t> ChunkFolder::remove_unfinished() {
  std::vector<std::string> unfinished;
  TRIREME_TRY_DONE(for_each_file([&](const fs::path& path) -> Status {
    if (path.extension() == ".new") unfinished.push_back(path.string());
    return Done{};
  }));
  for (const std::string& path : unfinished) {
    TRIREME_TRY_DONE(fault_before(faults_, DiskCall::Remove, path));
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
      return damaged(fmt::format("{}: cannot remove: {}", path, std::strerror(errno)));
    }
  }
  return int64_t(unfinished.size());
}

Status ChunkFolder::for_each_file(const std::function<Status(const fs::path&)>& visit) const {
  std::error_code error;
  const std::string chunks = folder_ + "/chunks";
  if (!fs::exists(chunks, error)) return Done{};
  for (fs::recursive_directory_iterator entry(chunks, error), end; !error && entry != end;
       entry.increment(error)) {
    TRIREME_TRY_DONE(visit(entry->path()));
  }
  if (error) return damaged(fmt::format("{}: cannot list: {}", chunks, error.message()));
  return Done{};
}

}  // namespace trireme
