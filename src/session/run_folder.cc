#include "session/run_folder.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

namespace trireme {
namespace {

namespace fs = std::filesystem;

// The agent of a job may have written its status into the folder before the first rank comes.
bool is_of_another_run(const std::string& folder) {
  std::error_code ignored;
  return fs::exists(folder + "/checkpoints", ignored) ||
         fs::exists(folder + "/metrics.jsonl", ignored);
}

}  // namespace

Result<RunFolder> RunFolder::hold(const std::string& path, const std::string& fallback) {
  TRIREME_TRY(held, HeldFolder::open(path));
  return RunFolder(std::move(held), fallback);
}

RunFolder::Place RunFolder::place() const {
  if (held_.is_at_its_path()) return Place::Own;
  return made_ && made_->is_at_its_path() ? Place::MadeAgain : Place::Lost;
}

bool RunFolder::is_lost() const { return place() == Place::Lost; }

Result<std::string> RunFolder::checkpoint_root() const {
  if (!is_lost()) return held_.path() + "/checkpoints";
  if (!fallback_.empty()) return fallback_ + "/checkpoints";
  return damaged(held_.path() +
                 ": the folder was moved or removed while the run used it, and could not be made "
                 "again, so nothing can be saved there; make room for it, or set "
                 "checkpoint.fallback_folder");
}

std::string RunFolder::report_folder() const { return is_lost() ? fallback_ : held_.path(); }

Status RunFolder::make_again() {
  if (!is_lost() || !fallback_.empty()) return Done{};
  const std::string& path = held_.path();
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return damaged(path + ": cannot be made: " + error.message());
  if (is_of_another_run(path)) return damaged(path + " is now the folder of another run");
  TRIREME_TRY(lock, FileLock::take(path + "/" + kRunLockName));
  TRIREME_TRY(made, HeldFolder::open(path));
  lock_ = std::move(lock);
  made_ = std::move(made);
  ++num_made_;
  return Done{};
}

void RunFolder::on_step(const StepReport& report) {
  const Status made = make_again();
  const Place now = place();
  if (now == told_ && num_made_ == num_told_) return;
  told_ = now;
  num_told_ = num_made_;
  if (now != Place::Lost && when_found_) when_found_();
  const std::string message = fmt::format("step {}: {}", report.step, text_of_change(now, made));
  for (RunObserver* listener : listeners_) listener->on_message(message);
}

std::string RunFolder::text_of_change(Place now, const Status& made) const {
  if (now == Place::Own) return held_.path() + " is back";
  const std::string lost = held_.path() + " was moved or removed while the run uses it";
  if (now == Place::MadeAgain) {
    return lost +
           "; training continues in a new folder of this name, which does not have the earlier "
           "checkpoints";
  }
  if (!fallback_.empty()) return lost + "; checkpoints go to " + fallback_ + " from now on";
  return fmt::format(
      "{}, and cannot be made again: {}; training continues, nothing can be saved until then, and "
      "each step tries again",
      lost, made.ok() ? "it has vanished once more" : made.error().message);
}

}  // namespace trireme
