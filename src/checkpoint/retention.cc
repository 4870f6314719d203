#include "checkpoint/retention.h"

#include <algorithm>
#include <filesystem>

#include "base/leftovers.h"
#include "checkpoint/checkpoint_index.h"
#include "checkpoint/read_back.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Returns the steps of the checkpoints in `root` up to `last`, newest first.
std::vector<int64_t> steps_until(const std::string& root, int64_t last) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    const int64_t step = step_of_folder_name(entry->path().filename().string());
    if (step >= 0 && step <= last) steps.push_back(step);
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

// Renames the folder before it is removed, so that an interrupted removal does not leave an
// incomplete checkpoint. If it cannot be removed, the next save tries again.
void remove_checkpoint(const fs::path& path) {
  std::error_code error;
  const fs::path doomed = temporary_name(path.string()) + "-old";
  fs::rename(path, doomed, error);
  fs::remove_all(error ? path : doomed, error);
}

}  // namespace

RetentionResult apply_retention(const std::string& root, int64_t step,
                                const RetentionOptions& options,
                                const std::function<bool()>& should_stop) {
  const auto is_milestone = [&](int64_t of) {
    return options.keep_every > 0 && of % options.keep_every == 0;
  };
  const std::vector<int64_t> steps = steps_until(root, step);
  const bool may_remove = options.keep > 0 && int64_t(steps.size()) > options.keep;
  const int64_t wanted = may_remove ? options.keep : 1;
  RetentionResult result;
  for (const int64_t each : steps) {
    const std::string path = (fs::path(root) / step_folder_name(each)).string();
    if (int64_t(result.verified.size()) < wanted) {
      const ReadBack read = read_back(path, should_stop);
      if (!read.is_done) return result;
      if (read.problem.empty()) {
        result.verified.push_back(each);
      } else {
        result.damaged.push_back({each, read.problem});
      }
    } else if (may_remove && !is_milestone(each)) {
      if (should_stop && should_stop()) return result;
      remove_checkpoint(path);
      result.removed.push_back(each);
    }
  }
  return result;
}

}  // namespace trireme
