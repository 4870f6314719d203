#include "session/wrong_checkpoints.h"

#include <algorithm>
#include <filesystem>

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

}  // namespace

std::optional<WrongCheckpoints> set_wrong_checkpoints_aside(const std::vector<std::string>& roots,
                                                            int64_t clean_step) {
  std::vector<fs::path> all;
  for (const std::string& root : roots) {
    for (fs::path& checkpoint : checkpoints_in(root)) all.push_back(std::move(checkpoint));
  }
  const bool has_clean = std::any_of(all.begin(), all.end(), [&](const fs::path& checkpoint) {
    return step_of(checkpoint) <= clean_step;
  });
  if (!has_clean) return std::nullopt;
  WrongCheckpoints wrong;
  for (const fs::path& checkpoint : all) {
    if (step_of(checkpoint) <= clean_step) continue;
    const fs::path aside = checkpoint.parent_path() / ("wrong-" + checkpoint.filename().string());
    std::error_code error;
    fs::remove_all(aside, error);  // of an earlier alarm
    fs::rename(checkpoint, aside, error);
    if (error) {
      wrong.kept.push_back(checkpoint.string() + ": " + error.message());
    } else {
      wrong.renamed.push_back(aside.string());
    }
  }
  return wrong;
}

void remove_wrong_checkpoints(const std::string& memory_folder, int64_t clean_step) {
  if (memory_folder.empty()) return;
  for (const fs::path& checkpoint : checkpoints_in(memory_folder)) {
    std::error_code ignored;
    if (step_of(checkpoint) > clean_step) fs::remove_all(checkpoint, ignored);
  }
}

}  // namespace trireme
