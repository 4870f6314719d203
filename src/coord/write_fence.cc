#include "coord/write_fence.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/file.h"
#include "base/sealed_json.h"
#include "coord/folder_lock.h"

namespace trireme {
namespace {

constexpr int64_t kMostFenceBytes = 4096;

std::string fence_path(const std::string& folder) { return folder + "/epoch.json"; }
std::string fence_lock_path(const std::string& folder) { return folder + "/epoch.lock"; }

}  // namespace

Result<int64_t> WriteFence::epoch() const {
  const std::string path = fence_path(folder_);
  if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) return int64_t{0};
  TRIREME_TRY(text, read_text_file(path, kMostFenceBytes));
  const Result<nlohmann::json> json = parse_bounded_json(text);
  if (check_seal(text).ok() && json.ok() && json->is_object() && json->contains("epoch")) {
    const nlohmann::json& epoch = json->at("epoch");
    if (epoch.is_number_unsigned() && epoch.get<uint64_t>() <= uint64_t{INT64_MAX}) {
      return epoch.get<int64_t>();
    }
  }
  return damaged(
      path +
      ": expected {\"epoch\": N} with its checksum; stop the job, remove this file, and resume");
}

Status WriteFence::raise(int64_t epoch, Deadline deadline) const {
  TRIREME_TRY_DONE(make_folders_of(fence_path(folder_)));
  const Result<FolderLock> lock = FolderLock::take(fence_lock_path(folder_), deadline);
  if (!lock.ok()) return lock.error();
  TRIREME_TRY(known, this->epoch());
  if (epoch <= known) return Done{};
  return write_file_atomically(fence_path(folder_),
                               seal_json(fmt::format("{{\"epoch\": {}}}", epoch)));
}

Status WriteFence::publish(int64_t epoch, const std::function<Status()>& publish,
                           Deadline deadline) const {
  const Result<FolderLock> lock = FolderLock::take(fence_lock_path(folder_), deadline);
  if (!lock.ok()) return lock.error();
  TRIREME_TRY(known, this->epoch());
  if (epoch >= known) return publish();
  return Error{ErrorKind::Runtime,
               fmt::format("{}: a write of epoch {} is refused, because epoch {} has begun; this "
                           "writer must stop and join again",
                           folder_, epoch, known)};
}

}  // namespace trireme
