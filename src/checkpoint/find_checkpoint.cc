#include "checkpoint/find_checkpoint.h"

#include <fmt/format.h>

#include <filesystem>

namespace trireme {
namespace {

// Lists the checkpoints that were tried, newest first, and why each does not open.
std::string what_was_tried(const std::string& root, const std::vector<std::string>& skipped) {
  if (skipped.empty()) {
    return fmt::format("{} holds no checkpoint: no folder like {}", root, step_folder_name(1));
  }
  std::string text = root + " holds no checkpoint that can be opened; tried, newest first:";
  for (const std::string& why : skipped) text += "\n  " + why;
  return text;
}

}  // namespace

Result<Checkpoint> find_checkpoint(const std::string& path) {
  namespace fs = std::filesystem;
  const std::string root = path + "/checkpoints";
  if (!fs::is_directory(root)) return Checkpoint::open(path);
  TRIREME_TRY(latest, find_latest_checkpoint(root));
  if (latest.path.empty()) {
    return Error{ErrorKind::Damaged, what_was_tried(root, latest.skipped)};
  }
  return Checkpoint::open(latest.path);
}

}  // namespace trireme
