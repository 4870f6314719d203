#include "session/wrong_checkpoints.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/guest_parts.h"
#include "checkpoint/checkpoint_index.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> checkpoints_in(const std::string& root) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root, ignored)) {
    if (step_of_folder_name(entry.path().filename().string()) >= 0) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

int64_t step_of(const fs::path& checkpoint) {
  return step_of_folder_name(checkpoint.filename().string());
}

// Returns a name that no file has yet.
fs::path name_aside(const fs::path& checkpoint) {
  const fs::path first = checkpoint.parent_path() / ("wrong-" + checkpoint.filename().string());
  fs::path name = first;
  std::error_code ignored;
  for (int number = 2; fs::exists(name, ignored); ++number) {
    name = fmt::format("{}-{}", first.string(), number);
  }
  return name;
}

}  // namespace

int64_t newest_checkpoint_before(const std::vector<std::string>& roots, int64_t step) {
  int64_t newest = -1;
  for (const std::string& root : roots) {
    for (const fs::path& checkpoint : checkpoints_in(root)) {
      if (step_of(checkpoint) < step) newest = std::max(newest, step_of(checkpoint));
    }
  }
  return newest;
}

WrongCheckpoints set_wrong_checkpoints_aside(const std::vector<std::string>& roots,
                                             int64_t clean_step) {
  WrongCheckpoints wrong;
  for (const std::string& root : roots) {
    for (const fs::path& checkpoint : checkpoints_in(root)) {
      if (step_of(checkpoint) <= clean_step) continue;
      const fs::path aside = name_aside(checkpoint);
      std::error_code error;
      fs::rename(checkpoint, aside, error);
      if (error) {
        wrong.kept.push_back(checkpoint.string() + ": " + error.message());
      } else {
        wrong.renamed.push_back(aside.string());
      }
    }
  }
  return wrong;
}

std::string warning_about_kept(const WrongCheckpoints& wrong) {
  if (wrong.kept.empty()) return "";
  return fmt::format(
      "warning: checkpoints that may be wrong could not be renamed, and the run may resume from "
      "them: {}",
      fmt::join(wrong.kept, ", "));
}

void remove_wrong_checkpoints(const std::string& memory_folder, int64_t clean_step) {
  if (memory_folder.empty()) return;
  std::vector<std::string> roots = guest_folders(memory_folder);
  roots.push_back(memory_folder);
  for (const std::string& root : roots) {
    for (const fs::path& checkpoint : checkpoints_in(root)) {
      std::error_code ignored;
      if (step_of(checkpoint) > clean_step) fs::remove_all(checkpoint, ignored);
    }
  }
}

}  // namespace trireme
