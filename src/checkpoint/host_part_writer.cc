#include "checkpoint/host_part_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/hash.h"

namespace trireme {
namespace {

Error part_error(const std::string& path, const char* action) {
  return damaged(fmt::format("{}: cannot {}: {}", path, action, std::strerror(errno)));
}

// Makes a folder. What an interrupted save of the same step has left there is removed.
Status make_empty_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) == 0) return Done{};
  if (errno != EEXIST) return part_error(path, "create");
  abandon_checkpoint(path);
  if (::mkdir(path.c_str(), 0777) != 0) return part_error(path, "create");
  return Done{};
}

// Readers look at the folder only once it has its final name, so the file may grow in its place.
Status write_new_file(const std::string& path, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return part_error(path, "create");
  Status status = Done{};
  while (!text.empty() && status.ok()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      status = part_error(path, "write");
    } else {
      text.remove_prefix(size_t(written));
    }
  }
  ::close(fd);
  return status;
}

}  // namespace

std::string HostPartWriter::folder_of(const std::string& root, int64_t step) {
  return fmt::format("{}/{}.tmp-memory", root, step_folder_name(step));
}

Status HostPartWriter::begin(const std::string& folder, std::span<const NamedShard> shards) {
  const std::string root = folder.substr(0, folder.rfind('/'));
  if (::mkdir(root.c_str(), 0700) != 0 && errno != EEXIST) return part_error(root, "create");
  TRIREME_TRY_DONE(make_empty_folder(folder));
  for (const NamedShard& shard : shards) {
    const std::string path = folder + "/" + shard.name;
    if (::link(shard.path.c_str(), path.c_str()) != 0) return part_error(path, "link");
  }
  return Done{};
}

Status HostPartWriter::attach(const std::string& folder, const AttachedFile& file) {
  const char*& hashed = hashed_[file.name];
  if (hashed != file.content.data()) {
    attached_[file.name] = {.bytes = int64_t(file.content.size()),
                            .checksum = hash64(file.content)};
    hashed = file.content.data();
  }
  return write_new_file(folder + "/" + file.name, file.content);
}

Status HostPartWriter::finish(const std::string& folder, const CheckpointInfo& info,
                              std::span<const AttachedFile> attached,
                              std::span<const uint64_t> checksums, HostsRecord record) {
  for (const AttachedFile& file : attached) TRIREME_TRY_DONE(attach(folder, file));
  const std::string index = index_.print(info, attached_, checksums);
  record.index_checksum = hash64(index);
  TRIREME_TRY_DONE(write_new_file(folder + "/" + kHostsFile, print_hosts_record(record)));
  return write_new_file(folder + "/index.json", index);
}

}  // namespace trireme
