#include "session/resume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "checkpoint/load.h"
#include "comm/gather_text.h"

namespace trireme {
namespace {

void tell(const SessionOptions& options, const std::string& message) {
  for (RunObserver* observer : options.observers) observer->on_message(message);
}

// Takes a checkpoint of an earlier step than `damaged_step`; INT64_MAX: of any step.
// If every checkpoint is damaged it is an error: a fresh start would overwrite files that may be
// repairable.
Result<LatestCheckpoint> newest(const SessionOptions& options, int64_t damaged_step) {
  LatestCheckpoint newest;
  const int64_t before_step = std::min(options.before_step, damaged_step);
  bool had_others = before_step != INT64_MAX;
  for (const std::string& root : checkpoint_roots(options)) {
    const bool is_of_this_job = root == options.memory_folder;
    TRIREME_TRY(latest, find_latest_checkpoint(root, is_of_this_job ? damaged_step : before_step));
    for (const std::string& skipped : latest.skipped) {
      tell(options, "skipping a damaged checkpoint: " + skipped);
      had_others = true;
    }
    if (latest.step > newest.step) newest = std::move(latest);
  }
  if (newest.path.empty() && had_others) {
    return Error{ErrorKind::Damaged,
                 fmt::format("--resume auto: no checkpoint in {} is intact; move the folder away, "
                             "or start afresh with another --out",
                             fmt::join(checkpoint_roots(options), " or "))};
  }
  return newest;
}

// Returns the newest intact checkpoint, searching backwards from `folder`.
Result<std::string> newest_intact(const SessionOptions& options, std::string folder,
                                  Progress& progress) {
  while (true) {
    TRIREME_TRY(checkpoint, Checkpoint::open(folder));
    const std::vector<std::string> problems = checkpoint.verify(options.host.num_cores, &progress);
    if (problems.empty()) return folder;
    tell(options, "skipping a damaged checkpoint: " + problems.front());
    TRIREME_TRY(earlier, newest(options, checkpoint.info().step));
    folder = std::move(earlier.path);
  }
}

}  // namespace

bool has_memory_checkpoint(const SessionOptions& options) {
  if (options.memory_folder.empty()) return false;
  const Result<LatestCheckpoint> latest = find_latest_checkpoint(options.memory_folder);
  return latest.ok() && !latest->path.empty();
}

std::vector<std::string> checkpoint_roots(const SessionOptions& options) {
  std::vector<std::string> roots = {options.out_dir + "/checkpoints"};
  const std::string& fallback = options.config.checkpoint.fallback_folder;
  if (!fallback.empty()) roots.push_back(fallback + "/checkpoints");
  if (!options.memory_folder.empty()) roots.push_back(options.memory_folder);
  return roots;
}

Result<std::string> find_resume_folder(const SessionOptions& options) {
  switch (options.resume) {
    case ResumeMode::Fresh:
      return std::string();
    case ResumeMode::Auto: {
      TRIREME_TRY(latest, newest(options, INT64_MAX));
      return latest.path;
    }
    case ResumeMode::Path:
      break;
  }
  std::error_code ignored;
  if (!std::filesystem::exists(options.resume_path, ignored)) {
    return usage(options.resume_path +
                 ": no such checkpoint; name one with --resume PATH, or take "
                 "the newest of --out with --resume auto");
  }
  TRIREME_TRY_DONE(Checkpoint::open(options.resume_path));
  return options.resume_path;
}

Result<std::string> agree_on_intact(World& world, const SessionOptions& options,
                                    const std::string& folder) {
  if (options.resume != ResumeMode::Auto || folder.empty()) return folder;
  std::string intact;
  if (world.rank() == 0) {
    Result<std::string> found = newest_intact(options, folder, world.group().progress());
    if (!found.ok()) return found.error();  // ends the other ranks with this error
    intact = std::move(*found);
  }
  world.group().monitored_barrier();
  return gather_text(world.group(), intact).front();
}

}  // namespace trireme
