#include "session/run_folder.h"

#include <fmt/format.h>

#include <utility>

namespace trireme {

Result<RunFolder> RunFolder::hold(const std::string& path, const std::string& fallback) {
  TRIREME_TRY(held, HeldFolder::open(path));
  return RunFolder(std::move(held), fallback);
}

Result<std::string> RunFolder::checkpoint_root() const {
  if (!is_lost()) return held_.path() + "/checkpoints";
  if (!fallback_.empty()) return fallback_ + "/checkpoints";
  return damaged(
      held_.path() +
      ": the folder was moved or removed while the run used it, so nothing can be saved there; "
      "move it back and resume, or set checkpoint.fallback_folder");
}

std::string RunFolder::report_folder() const { return is_lost() ? fallback_ : held_.path(); }

void RunFolder::on_step(const StepReport& report) {
  const bool is_lost_now = is_lost();
  if (is_lost_now == was_lost_) return;
  was_lost_ = is_lost_now;
  *must_stop_ = is_lost_now && fallback_.empty();
  const std::string message =
      !is_lost_now ? fmt::format("step {}: {} is back", report.step, held_.path())
      : fallback_.empty()
          ? fmt::format(
                "step {}: {} was moved or removed while the run uses it; the run stops, "
                "as checkpoint.fallback_folder is not set",
                report.step, held_.path())
          : fmt::format(
                "step {}: {} was moved or removed while the run uses it; checkpoints go to "
                "{} from now on",
                report.step, held_.path(), fallback_);
  for (RunObserver* listener : listeners_) listener->on_message(message);
}

}  // namespace trireme
