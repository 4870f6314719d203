#include "coord/file_coord.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/bounded_json.h"
#include "base/file.h"
#include "base/json_number.h"
#include "base/json_text.h"
#include "base/leftovers.h"
#include "base/sealed_json.h"
#include "comm/fabric.h"
#include "coord/folder_lock.h"

namespace trireme {
namespace {

constexpr int64_t kMostBytes = int64_t{64} << 20;

Error wrong_content(const std::string& path, const std::string& what) {
  return damaged(path + ": " + what +
                 "; stop the job, remove the folder, and resume from a checkpoint");
}

}  // namespace

Result<std::unique_ptr<FileCoord>> FileCoord::open(const std::string& folder) {
  auto coord = std::unique_ptr<FileCoord>(new FileCoord(folder));
  TRIREME_TRY_DONE(make_folders_of(coord->content_path()));
  remove_leftovers_of(coord->content_path());
  return coord;
}

Status FileCoord::under_lock(Deadline deadline,
                             const std::function<Result<bool>(Content&)>& change) {
  const Result<FolderLock> lock = FolderLock::take(folder_ + "/lock", deadline);
  if (!lock.ok()) return lock.error();
  const int64_t read_ns = steady_now_ns();
  TRIREME_TRY(content, read());
  const bool has_ended = end_leases(content, read_ns);
  TRIREME_TRY(has_changed, change(content));
  if (has_ended || has_changed) TRIREME_TRY_DONE(write(content));
  return Done{};
}

// Ends every lease whose counter has not changed for the length of the lease. A new counter was
// written before it was read here, so the length counts from a moment after the read. `read_ns` is
// a moment before the read.
bool FileCoord::end_leases(Content& content, int64_t read_ns) {
  std::vector<LeaseId> ended;
  for (const auto& [id, lease] : content.leases) {
    Seen& seen = seen_[id];
    if (seen.renewals != lease.renewals) {
      seen = {lease.renewals, steady_now_ns()};
    } else if (double(read_ns - seen.since_ns) > lease.seconds * 1e9) {
      ended.push_back(id);
    }
  }
  for (const LeaseId id : ended) end(content, id);
  std::erase_if(seen_, [&](const auto& seen) { return !content.leases.contains(seen.first); });
  return !ended.empty();
}

void FileCoord::end(Content& content, LeaseId lease) {
  content.leases.erase(lease);
  std::erase_if(content.entries, [&](const auto& entry) { return entry.second.lease == lease; });
}

Result<FileCoord::Content> FileCoord::read() const {
  Content content;
  if (::access(content_path().c_str(), F_OK) != 0 && errno == ENOENT) return content;
  TRIREME_TRY(text, read_text_file(content_path(), kMostBytes));
  const Status seal = check_seal(text);
  if (!seal.ok()) return wrong_content(content_path(), seal.error().message);
  Result<nlohmann::json> json = parse_bounded_json(text);
  if (!json.ok()) return wrong_content(content_path(), json.error().message);
  try {
    content.revision = whole_number<int64_t>(json->at("revision"));
    for (const auto& [key, entry] : json->at("keys").items()) {
      content.entries[key] = {key, entry.at("value").get<std::string>(),
                              whole_number<int64_t>(entry.at("version")),
                              whole_number<LeaseId>(entry.at("lease"))};
    }
    for (const auto& lease : json->at("leases")) {
      content.leases[whole_number<LeaseId>(lease.at("id"))] = {
          lease.at("seconds").get<double>(), whole_number<int64_t>(lease.at("renewals"))};
    }
  } catch (const nlohmann::json::exception& failure) {
    return wrong_content(content_path(), json_problem(failure.what()));
  }
  return content;
}

Status FileCoord::write(const Content& content) const {
  auto keys = nlohmann::json::object();
  for (const auto& [key, entry] : content.entries) {
    keys[key] = {{"value", entry.value}, {"version", entry.version}, {"lease", entry.lease}};
  }
  auto leases = nlohmann::json::array();
  for (const auto& [id, lease] : content.leases) {
    leases.push_back({{"id", id}, {"seconds", lease.seconds}, {"renewals", lease.renewals}});
  }
  const nlohmann::json json{
      {"revision", content.revision}, {"keys", std::move(keys)}, {"leases", std::move(leases)}};
  try {
    return write_file_atomically(content_path(), seal_json(json_text(json, 1)));
  } catch (const nlohmann::json::exception& failure) {
    return usage(name() + ": a key or value is not UTF-8 text: " + json_problem(failure.what()));
  }
}

Result<CoordEntry> FileCoord::get(const std::string& key, Deadline deadline) {
  CoordEntry entry{.key = key};
  TRIREME_TRY_DONE(under_lock(deadline, [&](Content& content) -> Result<bool> {
    if (const auto found = content.entries.find(key); found != content.entries.end()) {
      entry = found->second;
    }
    return false;
  }));
  return entry;
}

Result<std::vector<CoordEntry>> FileCoord::list(const std::string& prefix, Deadline deadline) {
  std::vector<CoordEntry> entries;
  TRIREME_TRY_DONE(under_lock(deadline, [&](Content& content) -> Result<bool> {
    for (const auto& [key, entry] : content.entries) {
      if (key.starts_with(prefix)) entries.push_back(entry);
    }
    return false;
  }));
  return entries;
}

Result<CoordSwap> FileCoord::compare_and_swap(const CoordWrite& write, Deadline deadline) {
  CoordSwap swap;
  TRIREME_TRY_DONE(under_lock(deadline, [&](Content& content) -> Result<bool> {
    CoordEntry& entry = content.entries.try_emplace(write.key, CoordEntry{write.key}).first->second;
    swap.is_written = entry.version == write.expected_version;
    if (swap.is_written && write.lease != 0 && !content.leases.contains(write.lease)) {
      return Error{ErrorKind::Runtime, fmt::format("{}: key {} cannot be bound to lease {}, which "
                                                   "has ended",
                                                   name(), write.key, write.lease)};
    }
    if (swap.is_written) {
      entry = {write.key, write.value.value_or(""), write.value ? ++content.revision : 0,
               write.lease};
    }
    swap.entry = entry;
    if (entry.version == 0) {
      swap.entry = {.key = write.key};
      content.entries.erase(write.key);
    }
    return swap.is_written;
  }));
  return swap;
}

Result<LeaseId> FileCoord::grant(double seconds, Deadline deadline) {
  LeaseId id = 0;
  TRIREME_TRY_DONE(under_lock(deadline, [&](Content& content) -> Result<bool> {
    id = ++content.revision;
    content.leases[id] = {seconds, 0};
    return true;
  }));
  return id;
}

Result<bool> FileCoord::keep_alive(LeaseId lease, Deadline deadline) {
  bool is_alive = false;
  TRIREME_TRY_DONE(under_lock(deadline, [&](Content& content) -> Result<bool> {
    const auto found = content.leases.find(lease);
    is_alive = found != content.leases.end();
    if (is_alive) ++found->second.renewals;
    return is_alive;
  }));
  return is_alive;
}

Status FileCoord::revoke(LeaseId lease, Deadline deadline) {
  return under_lock(deadline, [&](Content& content) -> Result<bool> {
    const bool is_there = content.leases.contains(lease);
    end(content, lease);
    return is_there;
  });
}

}  // namespace trireme
