#include "session/resume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "checkpoint/find_checkpoint.h"
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
    TRIREME_TRY(latest, find_latest_checkpoint(root, before_step));
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

// What rank 0 finds on disk.
Result<LatestCheckpoint> newest_on_disk(const SessionOptions& options) {
  if (options.resume == ResumeMode::Auto) return newest(options, INT64_MAX);
  TRIREME_TRY(folder, find_resume_folder(options));
  LatestCheckpoint found;
  if (folder.empty()) return found;
  TRIREME_TRY(checkpoint, Checkpoint::open(folder, options.open_input));
  found.path = folder;
  found.step = checkpoint.info().step;
  return found;
}

// True if the checkpoint may be used. Otherwise `found` becomes the one before it.
Result<bool> is_intact(const SessionOptions& options, Progress& progress, LatestCheckpoint& found) {
  if (options.resume != ResumeMode::Auto || found.path.empty()) return true;
  TRIREME_TRY(checkpoint, Checkpoint::open(found.path));
  const std::vector<std::string> problems = checkpoint.verify(options.host.num_cores, &progress);
  if (problems.empty()) return true;
  tell(options, "skipping a damaged checkpoint: " + problems.front());
  TRIREME_TRY(earlier, newest(options, checkpoint.info().step));
  found = std::move(earlier);
  return false;
}

// The step of what rank 0 has found, on all ranks; -1 if it has found nothing.
int64_t shared_step(World& world, const Result<LatestCheckpoint>& disk) {
  int64_t step = disk.ok() ? disk->step : -1;
  world.group().monitored_barrier();
  world.group().broadcast({&step, DType::I64, Shape{1}}, 0);
  return step;
}

}  // namespace

std::vector<std::string> checkpoint_roots(const SessionOptions& options) {
  std::vector<std::string> roots = {options.out_dir + "/checkpoints"};
  const std::string& fallback = options.config.checkpoint.fallback_folder;
  if (!fallback.empty()) roots.push_back(fallback + "/checkpoints");
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
  if (is_url(options.resume_path)) {
    TRIREME_TRY(stored, Checkpoint::open(options.resume_path, options.open_input));
    return stored.folder();
  }
  std::error_code ignored;
  const bool exists = std::filesystem::exists(options.resume_path, ignored);
  if (!exists && !names_best_checkpoint(options.resume_path)) {
    return usage(options.resume_path +
                 ": no such checkpoint; name one or a run directory with --resume PATH, or take "
                 "the newest of --out with --resume auto");
  }
  TRIREME_TRY(checkpoint, find_checkpoint(options.resume_path));
  return checkpoint.folder();
}

Result<ResumePoint> agree_on_resume(World& world, const SessionOptions& options,
                                    MemoryResume& memory) {
  const bool is_first = world.rank() == 0;
  Result<LatestCheckpoint> disk = LatestCheckpoint{};
  if (is_first) disk = newest_on_disk(options);
  while (true) {
    if (memory.newest_step() > shared_step(world, disk)) {
      Result<MemoryCheckpoint> found = memory.take_newest();
      if (found.ok()) {
        return ResumePoint{found->folder, found->name, found->is_rebuilt ? "parity" : "memory"};
      }
      tell(options, found.error().message);
      continue;
    }
    int64_t is_chosen = 1;
    if (is_first) {
      if (!disk.ok()) return disk.error();  // ends the other ranks with this error
      const Result<bool> intact = is_intact(options, world.group().progress(), *disk);
      if (!intact.ok()) disk = intact.error();  // an older one may lie in memory
      is_chosen = intact.ok() && *intact ? 1 : 0;
    }
    world.group().monitored_barrier();
    world.group().broadcast({&is_chosen, DType::I64, Shape{1}}, 0);
    if (is_chosen == 0) continue;
    const std::string path = gather_text(world.group(), is_first ? disk->path : "").front();
    return ResumePoint{path, path, path.empty() ? "start" : "disk"};
  }
}

}  // namespace trireme
