#include "store/chunk_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/bounded_json.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_text.h"
#include "base/sealed_json.h"
#include "store/disk_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIdentityFile = "store.json";
constexpr int64_t kMostIdentityBytes = 4096;

struct ChunkHeader {
  std::array<char, 8> magic = {'t', 'r', 'i', 'r', 'c', 'h', 'k', '1'};
  uint64_t store = 0;
  uint64_t block = 0;
  int32_t chunk = 0;
  uint32_t reserved = 0;
  uint64_t bytes = 0;
  uint64_t checksum = 0;  // hash64 of the bytes that follow
  uint64_t reserved_too = 0;
  uint64_t header_checksum = 0;  // hash64 of everything above
};
static_assert(sizeof(ChunkHeader) == 64);

std::span<const std::byte> bytes_of_header(const ChunkHeader& header) {
  return std::as_bytes(std::span(&header, 1));
}

ChunkHeader header_of(uint64_t store, ChunkName name, uint64_t bytes, uint64_t checksum) {
  ChunkHeader header{.store = store, .block = name.block, .chunk = name.chunk, .bytes = bytes};
  header.checksum = checksum;
  header.header_checksum =
      hash64(bytes_of_header(header).first(offsetof(ChunkHeader, header_checksum)));
  return header;
}

// Reads until `bytes` are full or the file ends. Returns the number of bytes, or -1.
ssize_t read_fully(int fd, std::span<std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(fd, bytes.data() + done, bytes.size() - done);
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

Status write_identity(const std::string& folder, const FolderIdentity& identity,
                      DiskFaults* faults) {
  const nlohmann::ordered_json json = {{"store", hex64(identity.store)},
                                       {"name", identity.store_name},
                                       {"server", identity.server},
                                       {"incarnation", identity.incarnation}};
  return replace_file(folder + "/" + kIdentityFile, seal_json(json_text(json)), faults);
}

Result<FolderIdentity> read_identity(const std::string& folder) {
  const std::string path = folder + "/" + kIdentityFile;
  TRIREME_TRY(text, read_text_file(path, kMostIdentityBytes));
  if (const Status seal = check_seal(text); !seal.ok()) return with_context(seal.error(), path);
  TRIREME_TRY(json, parse_bounded_json(text));
  FolderIdentity identity;
  try {
    const auto store = json.at("store").get<std::string>();
    std::from_chars(store.data(), store.data() + store.size(), identity.store, 16);
    identity.store_name = json.at("name").get<std::string>();
    identity.server = json.at("server").get<std::string>();
    identity.incarnation = json.at("incarnation").get<uint64_t>();
  } catch (const nlohmann::json::exception& error) {
    return damaged(path + ": " + json_problem(error.what()));
  }
  return identity;
}

bool is_empty_folder(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return false;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename() != "lost+found") return false;
  }
  return !error;
}

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
    // Whoever has made it may have ended before it was synced. Other writes go on meanwhile.
    TRIREME_TRY_DONE(sync_folder_of(made, faults_));
    const std::lock_guard lock(mutex_);
    durable_folders_.insert(made);
  }
  return Done{};
}

Status ChunkFolder::write(ChunkName name, std::span<const std::byte> bytes, uint64_t checksum) {
  const std::string path = path_of(name);
  if (hash64(bytes) != checksum) {
    return damaged(path + ": the bytes to write do not have their checksum");
  }
  TRIREME_TRY_DONE(make_folder_of(path));
  const ChunkHeader header = header_of(store_, name, bytes.size(), checksum);
  const std::span<const std::byte> parts[] = {bytes_of_header(header), bytes};
  // A write that comes late must not damage what another one has written meanwhile.
  return replace_file(path, fmt::format("{}.{}.new", path, num_writes_++), parts, faults_);
}

ChunkRead ChunkFolder::read(ChunkName name, std::span<std::byte> bytes, uint64_t checksum) {
  const std::string path = path_of(name);
  if (const Status fault = fault_before(faults_, DiskCall::Read, path); !fault.ok()) {
    return {ChunkState::Unreadable, fault.error().message};
  }
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) {
    const bool has_no_file = errno == ENOENT;
    const std::string why = fmt::format("{}: cannot open: {}", path, std::strerror(errno));
    // A folder that is gone as a whole may be mounted again.
    const bool is_missing =
        has_no_file && ::access((folder_ + "/" + kIdentityFile).c_str(), R_OK) == 0;
    return {is_missing ? ChunkState::Missing : ChunkState::Unreadable, why};
  }
  ChunkHeader header;
  const ssize_t header_bytes = read_fully(fd, std::as_writable_bytes(std::span(&header, 1)));
  const ssize_t payload_bytes = header_bytes < 0 ? -1 : read_fully(fd, bytes);
  const int reason = errno;
  ::close(fd);
  if (payload_bytes < 0) {
    return {ChunkState::Unreadable,
            fmt::format("{}: cannot read: {}", path, std::strerror(reason))};
  }
  const ChunkHeader wanted = header_of(store_, name, bytes.size(), checksum);
  const bool is_whole = header_bytes == ssize_t(sizeof(header)) &&
                        payload_bytes == ssize_t(bytes.size()) &&
                        std::memcmp(&header, &wanted, sizeof(header)) == 0;
  if (!is_whole) return {ChunkState::Damaged, path + ": is cut off or has a wrong header"};
  if (hash64(bytes) != checksum) return {ChunkState::Damaged, path + ": has a wrong checksum"};
  return {};
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
