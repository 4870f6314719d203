#include "session/held_folders.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "agent/job_failure.h"
#include "base/clock.h"
#include "base/leftovers.h"
#include "session/resume.h"
#include "session/run_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr double kFormerRankS = 10.0;  // until a rank of a former epoch has ended
constexpr std::chrono::milliseconds kLockPause(20);

// A launcher on several hosts uses the folder before its ranks do, and agents leave evidence there
// of failures before the first step.
bool is_unused(const std::string& folder) {
  std::error_code ignored;
  const fs::directory_iterator entries(folder, ignored);
  return std::all_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    const fs::path name = entry.path().filename();
    return name == kRunLockName || name == kCoordFolder || name == kFailuresFolder;
  });
}

Error in_use(const char* key, const std::string& folder, const Error& holder) {
  return Error{ErrorKind::Usage,
               fmt::format("{} {} is in use by another run: {}; stop that one, or choose another "
                           "folder",
                           key, folder, holder.message)};
}

// Takes the lock, if necessary within some time.
Result<FileLock> take_lock(const std::string& path, double patience_s) {
  const int64_t end_ns = monotonic_ns() + int64_t(patience_s * 1e9);
  while (true) {
    Result<FileLock> lock = FileLock::take(path);
    const bool is_held = !lock.ok() && lock.error().kind == ErrorKind::Usage;
    if (!is_held || monotonic_ns() > end_ns) return lock;
    std::this_thread::sleep_for(kLockPause);
  }
}

// Makes a folder and locks it against other runs.
Status hold_folder(const std::string& folder, const char* key, const SessionOptions& options,
                   std::vector<FileLock>& locks) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return Error{
        ErrorKind::Damaged,
        fmt::format("{} {}: cannot make the folder: {}; choose a folder that you may write to", key,
                    folder, error.message())};
  }
  if (!options.is_first_process) return Done{};
  // In a later epoch, the first rank of the one before may still be ending on a host that is cut
  // off.
  Result<FileLock> lock =
      take_lock(folder + "/" + kRunLockName, options.order ? kFormerRankS : 0.0);
  if (lock.ok()) {
    locks.push_back(std::move(*lock));
    return Done{};
  }
  if (lock.error().kind != ErrorKind::Usage) return lock.error();
  return in_use(key, folder, lock.error());
}

Result<std::vector<FileLock>> hold_folders(const SessionOptions& options) {
  std::vector<FileLock> locks;
  TRIREME_TRY_DONE(hold_folder(options.out_dir, "--out", options, locks));
  const std::string& fallback = options.config.checkpoint.fallback_folder;
  if (fallback.empty()) return locks;
  std::error_code error;
  if (fs::equivalent(options.out_dir, fallback, error)) {
    return Error{
        ErrorKind::Usage,
        fmt::format("checkpoint.fallback_folder = \"{}\" is the folder of the run, but it must "
                    "take checkpoints when that folder is lost; choose another one",
                    fallback)};
  }
  TRIREME_TRY_DONE(hold_folder(fallback, "checkpoint.fallback_folder", options, locks));
  return locks;
}

}  // namespace

Status check_run_folder(const std::string& folder, ResumeMode resume) {
  std::error_code error;
  const bool is_fresh = resume == ResumeMode::Fresh;
  if (is_fresh && (!fs::exists(folder, error) || is_unused(folder))) return Done{};
  const std::string lock_file = folder + "/" + kRunLockName;
  if (fs::exists(lock_file, error)) {
    const Result<FileLock> lock = FileLock::take(lock_file);
    const bool is_held = !lock.ok() && lock.error().kind == ErrorKind::Usage;
    if (is_held) return in_use("--out", folder, lock.error());
  }
  if (!is_fresh) return Done{};
  return Error{ErrorKind::Usage,
               fmt::format("--out {} is not empty: continue that run with --resume auto, or choose "
                           "another folder",
                           folder)};
}

Status check_out_dir(const SessionOptions& options) {
  std::error_code error;
  if (fs::exists(options.out_dir, error) && !fs::is_directory(options.out_dir, error)) {
    return Error{
        ErrorKind::Usage,
        fmt::format("--out {} is a file: a run needs a folder of its own", options.out_dir)};
  }
  if (options.resume != ResumeMode::Fresh || !options.is_first_process) return Done{};
  return check_run_folder(options.out_dir, options.resume);
}

RunRight run_right(const SessionOptions& options) {
  return {options.link, options.place ? options.place->epoch : 1, options.out_dir};
}

Result<std::vector<FileLock>> hold_unless_gone(const SessionOptions& options) {
  Result<std::vector<FileLock>> locks = hold_folders(options);
  const bool may_be_gone = options.order && run_right(options).is_limited();
  const bool is_held = !locks.ok() && locks.error().kind == ErrorKind::Usage;
  if (is_held && may_be_gone) return std::vector<FileLock>();
  return locks;
}

void sweep_folders(const SessionOptions& options) {
  if (!options.is_first_process) return;
  std::vector<std::string> removed;
  for (const std::string& root : checkpoint_roots(options)) {
    for (const std::string& folder : {fs::path(root).parent_path().string(), root}) {
      for (std::string& path : remove_leftovers(folder)) removed.push_back(std::move(path));
    }
  }
  if (removed.empty()) return;
  const std::string message =
      fmt::format("removed files that a killed run has left: {}", fmt::join(removed, ", "));
  for (RunObserver* observer : options.observers) observer->on_message(message);
}

}  // namespace trireme
