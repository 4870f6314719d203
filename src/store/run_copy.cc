#include "store/run_copy.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/leftovers.h"
#include "base/remove_folder.h"
#include "store/get_file.h"
#include "store/remove_files.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCheckpoints = "checkpoints";
constexpr const char* kIndex = "index.json";
constexpr std::string_view kStep = "step-";
constexpr size_t kMostDigits = 18;  // of a step, which is an int64_t

// Temporary folders of saves have longer names.
bool is_checkpoint(const std::string& name) {
  return name.starts_with(kStep) && name.size() > kStep.size() &&
         name.size() <= kStep.size() + kMostDigits &&
         name.find_first_not_of("0123456789", kStep.size()) == std::string::npos;
}

int64_t step_of(const std::string& name) { return std::stoll(name.substr(kStep.size())); }

// The names of entries of a folder for which the condition holds, in order.
template <typename Condition>
std::vector<std::string> names_in(const std::string& folder, const Condition& is_wanted) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    if (is_wanted(*entry)) names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> checkpoints_in(const std::string& folder) {
  return names_in(folder + "/" + kCheckpoints, [](const fs::directory_entry& entry) {
    std::error_code ignored;
    return is_checkpoint(entry.path().filename().string()) && entry.is_directory(ignored);
  });
}

bool is_plain_file(const fs::directory_entry& entry) {
  std::error_code ignored;
  const std::string name = entry.path().filename().string();
  return entry.is_regular_file(ignored) && !entry.is_symlink(ignored) && !name.starts_with(".") &&
         !is_temporary_name(name);
}

// A checkpoint in the store. Its index becomes visible last and is removed first, so a checkpoint
// with an index is whole. The index has checksums of everything else.
struct CopiedCheckpoint {
  std::vector<std::string> files;
  std::optional<uint64_t> index_checksum;
};

// The files of a copy. Their names are those inside the run directory.
struct CopiedRun {
  std::map<std::string, CopiedCheckpoint> checkpoints;
  std::vector<std::string> files;
};

Result<CopiedRun> copied_run(Store& store, const std::string& path) {
  TRIREME_TRY(all, store.files(path));
  CopiedRun run;
  for (const WrittenFile& file : all) {
    if (file.path.size() <= path.size() + 1) continue;
    const fs::path inside(file.path.substr(path.size() + 1));
    const std::vector<std::string> parts(inside.begin(), inside.end());
    if (parts.size() == 1) run.files.push_back(parts[0]);
    if (parts.size() != 3 || parts[0] != kCheckpoints || !is_checkpoint(parts[1])) continue;
    CopiedCheckpoint& checkpoint = run.checkpoints[parts[1]];
    checkpoint.files.push_back(parts[2]);
    if (parts[2] == kIndex) checkpoint.index_checksum = file.record.checksum;
  }
  return run;
}

Status get_to(Store& store, const std::string& path, const std::string& to) {
  TRIREME_TRY(answer, store.ask({.kind = QuestionKind::File, .text = path}));
  TRIREME_TRY_DONE(get_to_file(store, answer, to));
  return Done{};
}

Status fetch_checkpoint(Store& store, const std::string& path, const std::string& root,
                        const std::string& name, const std::vector<std::string>& files) {
  const std::string made = root + "/.fetched-" + name;
  remove_folder(made);
  for (const std::string& file : files) {
    TRIREME_TRY_DONE(
        get_to(store, path + "/" + kCheckpoints + "/" + name + "/" + file, made + "/" + file));
  }
  TRIREME_TRY_DONE(sync_folder(made));
  std::error_code error;
  fs::rename(made, root + "/" + name, error);
  if (error) {
    return damaged(fmt::format("{}: cannot rename: {}", made, error.message()));
  }
  return sync_folder(root);
}

}  // namespace

Status RunCopy::put_checkpoint(Store& store, const std::string& name) {
  const std::string inside = std::string(kCheckpoints) + "/" + name;
  std::vector<FileToPut> files;
  for (const std::string& file : names_in(folder_ + "/" + inside, is_plain_file)) {
    files.push_back({folder_ + "/" + inside + "/" + file, path_ + "/" + inside + "/" + file});
  }
  // put_files() has one command for many files, but not for all of them.
  std::stable_partition(files.begin(), files.end(), [](const FileToPut& file) {
    return !file.path.ends_with(std::string("/") + kIndex);
  });
  const Result<PutTotals> put = put_files(store, files);
  std::error_code ignored;
  if (!put.ok() && fs::exists(folder_ + "/" + inside, ignored)) return put.error();
  return Done{};
}

Status RunCopy::put_changed(Store& store) {
  std::vector<FileToPut> files;
  std::map<std::string, Stamp> stamps;
  for (const std::string& name : names_in(folder_, is_plain_file)) {
    struct stat found {};
    if (::stat((folder_ + "/" + name).c_str(), &found) != 0) continue;
    const Stamp stamp{found.st_size,
                      int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec};
    const auto known = copied_.find(name);
    if (known != copied_.end() && known->second == stamp) continue;
    files.push_back({folder_ + "/" + name, path_ + "/" + name});
    stamps[name] = stamp;
  }
  if (files.empty()) return Done{};
  TRIREME_TRY_DONE(put_files(store, files));
  for (const auto& [name, stamp] : stamps) copied_[name] = stamp;
  return Done{};
}

Status RunCopy::remove(Store& store, const std::string& name) {
  const std::string inside = path_ + "/" + kCheckpoints + "/" + name;
  TRIREME_TRY(files, store.files(inside));
  std::stable_partition(files.begin(), files.end(), [&](const WrittenFile& file) {
    return file.path == inside + "/" + kIndex;
  });
  return remove_files(store, files);
}

// A run that has gone back writes a step again, with other bytes under the same name.
Status RunCopy::replace_checkpoint(Store& store, const std::string& name,
                                   std::optional<uint64_t> index_checksum) {
  const Result<std::string> index =
      read_text_file(folder_ + "/" + kCheckpoints + "/" + name + "/" + kIndex);
  if (!index.ok() || hash64(*index) == index_checksum) return Done{};
  TRIREME_TRY_DONE(remove(store, name));
  return put_checkpoint(store, name);
}

Status RunCopy::update(Store& store) {
  TRIREME_TRY(copied, copied_run(store, path_));
  const std::vector<std::string> own = checkpoints_in(folder_);
  for (const std::string& name : own) {
    const auto found = copied.checkpoints.find(name);
    TRIREME_TRY_DONE(found == copied.checkpoints.end()
                         ? put_checkpoint(store, name)
                         : replace_checkpoint(store, name, found->second.index_checksum));
  }
  TRIREME_TRY_DONE(put_changed(store));
  const std::set<std::string> kept(own.begin(), own.end());
  for (const auto& [name, checkpoint] : copied.checkpoints) {
    if (!kept.contains(name)) TRIREME_TRY_DONE(remove(store, name));
  }
  return Done{};
}

Result<bool> has_run(Store& store, const std::string& path) {
  TRIREME_TRY(files, store.files(path));
  return !files.empty();
}

Result<int64_t> fetch_newer_run(Store& store, const std::string& path, const std::string& folder) {
  TRIREME_TRY(copied, copied_run(store, path));
  const std::vector<std::string> known = checkpoints_in(folder);
  const std::set<std::string> own(known.begin(), known.end());
  int64_t newest = -1, own_newest = -1;
  std::erase_if(copied.checkpoints, [](const auto& one) { return !one.second.index_checksum; });
  for (const auto& [name, checkpoint] : copied.checkpoints) {
    newest = std::max(newest, step_of(name));
  }
  for (const std::string& name : own) own_newest = std::max(own_newest, step_of(name));
  if (newest <= own_newest) return -1;
  const std::string root = folder + "/" + kCheckpoints;
  for (const auto& [name, checkpoint] : copied.checkpoints) {
    if (own.contains(name)) continue;
    TRIREME_TRY_DONE(fetch_checkpoint(store, path, root, name, checkpoint.files));
  }
  for (const std::string& file : copied.files) {
    TRIREME_TRY_DONE(get_to(store, path + "/" + file, folder + "/" + file));
  }
  return newest;
}

}  // namespace trireme
