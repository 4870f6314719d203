#include "checkpoint/find_checkpoint.h"

#include <fmt/format.h>

#include <filesystem>

#include "checkpoint/best_checkpoint.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Lists the checkpoints that were tried, newest first, and why each does not open.
std::string what_was_tried(const std::string& root, const std::vector<std::string>& skipped) {
  if (skipped.empty()) {
    return fmt::format("{} holds no checkpoint: no folder like {}", root, step_folder_name(1));
  }
  std::string text = root + " holds no checkpoint that can be opened; tried, newest first:";
  for (const std::string& why : skipped) text += "\n  " + why;
  return text;
}

// Returns "runs/demo" for "runs/demo/best" and for "runs/demo/best/".
fs::path run_dir_of_best(const std::string& path) {
  const fs::path given = fs::path(path).lexically_normal();
  return given.has_filename() ? given.parent_path() : given.parent_path().parent_path();
}

Result<Checkpoint> find_best(const std::string& path) {
  const std::string run_dir = run_dir_of_best(path).string();
  const auto validated = validated_checkpoints((fs::path(run_dir) / "checkpoints").string());
  if (validated.empty()) {
    return usage(fmt::format(
        "{}: no checkpoint of {} was validated, so none is the best; take the newest one ({}), or "
        "train with data.val and run.eval_every",
        path, run_dir, run_dir));
  }
  auto best = Checkpoint::open(validated.front().path);
  if (best.ok() || validated.size() == 1) return best;
  return Error{best.error().kind,
               fmt::format("{}; the next best one is {}", best.error().message, validated[1].path)};
}

// Refuses a folder that is no checkpoint, and says what it holds. A checkpoint without an index
// passes: Checkpoint::open reports it as damaged.
Status check_is_checkpoint(const std::string& path) {
  std::error_code ignored;
  const bool may_be =
      !fs::is_directory(path, ignored) || fs::exists(path + "/index.json", ignored) ||
      step_of_folder_name(fs::path(path).lexically_normal().filename().string()) >= 0;
  if (may_be) return Done{};
  if (fs::exists(path + "/config.json", ignored)) {
    return usage(path +
                 ": a model of another program; convert it with `trireme checkpoint import " +
                 path + " --out CHECKPOINT`");
  }
  return usage(path +
               ": holds no checkpoint: it has neither index.json nor a folder checkpoints; name "
               "a run directory, such as runs/demo, or a checkpoint in it");
}

// The newest checkpoint of a run is not searched in a store, because each look asks its servers.
Result<Checkpoint> open_stored(const std::string& name, const OpenInput& open_input) {
  auto opened = Checkpoint::open(name, open_input);
  const bool has_step = step_of_folder_name(fs::path(name).filename().string()) >= 0;
  if (opened.ok() || opened.error().kind != ErrorKind::Usage || has_step) return opened;
  return usage(fmt::format(
      "{}; name the folder of a checkpoint, such as {}/checkpoints/{}, as `trireme store ls {}` "
      "lists them",
      opened.error().message, name, step_folder_name(100), name));
}

}  // namespace

bool has_checkpoints(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (step_of_folder_name(entry->path().filename().string()) >= 0) return true;
  }
  return false;
}

bool names_best_checkpoint(const std::string& path) {
  const fs::path given = fs::path(path).lexically_normal();
  const fs::path name = given.has_filename() ? given.filename() : given.parent_path().filename();
  std::error_code ignored;
  return name == "best" && !fs::exists(path, ignored) &&
         fs::is_directory(run_dir_of_best(path) / "checkpoints", ignored);
}

Result<Checkpoint> find_checkpoint(const std::string& path, const OpenInput& open_input) {
  if (is_url(path)) return open_stored(path, open_input);
  if (names_best_checkpoint(path)) return find_best(path);
  std::error_code ignored;
  const bool is_root = !fs::exists(path + "/index.json", ignored) && has_checkpoints(path);
  const std::string root = is_root ? path : path + "/checkpoints";
  if (!fs::is_directory(root, ignored)) {
    TRIREME_TRY_DONE(check_is_checkpoint(path));
    return Checkpoint::open(path);
  }
  TRIREME_TRY(latest, find_latest_checkpoint(root));
  if (latest.path.empty()) {
    return Error{ErrorKind::Damaged, what_was_tried(root, latest.skipped)};
  }
  return Checkpoint::open(latest.path);
}

}  // namespace trireme
