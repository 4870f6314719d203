#include "checkpoint/retention.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/leftovers.h"
#include "checkpoint/best_checkpoint.h"
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

// Returns the step of the best intact checkpoint, or -1 if there is none. Reads back the
// checkpoints that `result` does not list yet. Returns nullopt if `should_stop` ended it.
std::optional<int64_t> intact_best(const std::string& root, int64_t last, RetentionResult& result,
                                   const std::function<bool()>& should_stop) {
  for (const ValidatedCheckpoint& each : validated_checkpoints(root, last)) {
    if (std::ranges::count(result.verified, each.step) > 0) return each.step;
    if (std::ranges::count(result.damaged, each.step, &DamagedCheckpoint::step) > 0) continue;
    const ReadBack read = read_back(each.path, should_stop);
    if (!read.is_done) return std::nullopt;
    if (read.problem.empty()) return each.step;
    result.damaged.push_back({each.step, read.problem});
  }
  return -1;
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
  const auto path_of = [&](int64_t of) { return (fs::path(root) / step_folder_name(of)).string(); };
  RetentionResult result;
  auto each = steps.begin();
  for (; each != steps.end() && int64_t(result.verified.size()) < wanted; ++each) {
    const ReadBack read = read_back(path_of(*each), should_stop);
    if (!read.is_done) return result;
    if (read.problem.empty()) {
      result.verified.push_back(*each);
    } else {
      result.damaged.push_back({*each, read.problem});
    }
  }
  if (!may_remove || each == steps.end()) return result;
  std::optional<int64_t> best = -1;
  if (options.keeps_best) best = intact_best(root, step, result, should_stop);
  if (!best) return result;
  for (; each != steps.end(); ++each) {
    if (is_milestone(*each) || *each == *best) continue;
    if (should_stop && should_stop()) return result;
    remove_checkpoint(path_of(*each));
    result.removed.push_back(*each);
  }
  return result;
}

}  // namespace trireme
