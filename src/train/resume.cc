#include "train/resume.h"

#include <fmt/format.h>

#include "checkpoint/load.h"

namespace trireme {
namespace {

std::string root_of(const SessionOptions& options) { return options.out_dir + "/checkpoints"; }

void tell(const SessionOptions& options, const std::string& message) {
  for (RunObserver* observer : options.observers) observer->on_message(message);
}

// Where every checkpoint is damaged, starting afresh would overwrite what can perhaps be repaired.
Result<std::string> newest(const SessionOptions& options, int64_t before_step) {
  TRIREME_TRY(latest, find_latest_checkpoint(root_of(options), before_step));
  for (const std::string& skipped : latest.skipped) {
    tell(options, "skipped a damaged checkpoint: " + skipped);
  }
  const bool had_others = !latest.skipped.empty() || before_step != INT64_MAX;
  if (latest.path.empty() && had_others) {
    return Error{ErrorKind::Damaged,
                 fmt::format("--resume auto: no checkpoint in {} is intact; move the folder away, "
                             "or start afresh with another --out",
                             root_of(options))};
  }
  return latest.path;
}

// The step of the newest checkpoint that is whole, from `folder` backwards.
Result<int64_t> newest_intact_step(const SessionOptions& options, std::string folder) {
  while (true) {
    TRIREME_TRY(checkpoint, Checkpoint::open(folder));
    const std::vector<std::string> problems = checkpoint.verify(options.host.num_cores);
    const int64_t step = checkpoint.info().step;
    if (problems.empty()) return step;
    tell(options, "skipped a damaged checkpoint: " + problems.front());
    TRIREME_TRY(earlier, newest(options, step));
    folder = std::move(earlier);
  }
}

}  // namespace

Result<std::string> find_resume_folder(const SessionOptions& options) {
  switch (options.resume) {
    case ResumeMode::Fresh:
      return std::string();
    case ResumeMode::Auto:
      return newest(options, INT64_MAX);
    case ResumeMode::Path:
      break;
  }
  TRIREME_TRY_DONE(Checkpoint::open(options.resume_path));
  return options.resume_path;
}

Result<std::string> agree_on_intact(World& world, const SessionOptions& options,
                                    const std::string& folder) {
  if (options.resume != ResumeMode::Auto || folder.empty()) return folder;
  int64_t step = -1;
  Error error;
  if (world.rank() == 0) {
    const Result<int64_t> intact = newest_intact_step(options, folder);
    if (intact.ok()) {
      step = *intact;
    } else {
      error = intact.error();
    }
  }
  world.group().barrier_after_lone_work();
  world.group().broadcast({&step, DType::I64, Shape{1}}, 0);
  if (step >= 0) return fmt::format("{}/{}", root_of(options), step_folder_name(step));
  if (world.rank() == 0) return error;
  return Error{ErrorKind::Damaged, "rank 0 found no intact checkpoint"};
}

}  // namespace trireme
