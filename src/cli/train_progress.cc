#include "cli/train_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "base/units.h"
#include "cli/plan_text.h"

namespace trireme {

// Faster redrawing would not help anybody and would slow small models down.
constexpr int64_t kRedrawNs = 100'000'000;

TrainProgress::TrainProgress(CommandIo& io)
    : io_(io), line_(io.err, standard_progress_style(io.err_is_terminal, io.color)) {}

void TrainProgress::begin(const RunPlan& plan, const TrainPosition& position, bool is_first_epoch) {
  if (is_first_epoch && !is_described_) io_.err << describe_plan(plan, io_.open_input);
  is_described_ = true;
  if (position.step > 0) io_.err << fmt::format("resumed after step {}\n", position.step);
  speed_unit_ = plan.model.reads_images() ? " images/s" : " tok/s";
  rank_bytes_ = plan.largest().memory.arena_bytes;
  first_step_ = position.step;
  begin_ns_ = monotonic_ns();
}

void TrainProgress::end() {
  if (!is_newest_shown_) show_newest();
  line_.finish();
}

void TrainProgress::on_step(const StepReport& report) {
  if (report.skipped) {
    say(fmt::format("step {}: a gradient is not finite; no update ({} skipped so far)", report.step,
                    report.skipped_steps));
  }
  newest_ = report;
  newest_.expert_loads = {};  // valid only during this call
  is_newest_shown_ = monotonic_ns() - shown_ns_ >= kRedrawNs || report.step == report.total_steps;
  if (is_newest_shown_) show_newest();
}

void TrainProgress::show_newest() {
  is_newest_shown_ = true;
  shown_ns_ = monotonic_ns();
  const StepReport& report = newest_;
  const double elapsed_s = double(shown_ns_ - begin_ns_) * 1e-9;
  const double per_step_s = elapsed_s / double(std::max<int64_t>(1, report.step - first_step_));
  const double eta_s = per_step_s * double(report.total_steps - report.step);
  std::vector<std::string> parts = {fmt::format("step {}/{}", report.step, report.total_steps),
                                    "loss " + format_fixed(report.loss, 4),
                                    format_rate(report.tokens_per_s) + speed_unit_,
                                    fmt::format("ETA {}", format_duration(eta_s)),
                                    fmt::format("MFU {:.1f}%", 100.0 * report.mfu)};
  if (report.epoch) parts.push_back(fmt::format("epoch {:.2f}", *report.epoch));
  if (!best_.empty()) parts.push_back(best_);
  for (std::string part :
       {"norm " + format_fixed(report.grad_norm, 2), fmt::format("lr {:.2e}", report.lr),
        format_bytes(rank_bytes_) + " a rank"}) {
    parts.push_back(std::move(part));
  }
  line_.update(parts);
}

// Prints above the progress line, which is then redrawn with the current progress.
void TrainProgress::say(const std::string& text) {
  if (!is_newest_shown_) show_newest();
  line_.print(text);
}

void TrainProgress::on_eval(const EvalReport& report) {
  const std::string bits =
      report.bits_per_byte > 0.0 ? fmt::format(", {:.4f} bits per byte", report.bits_per_byte) : "";
  const std::string right =
      report.accuracy ? fmt::format(", {:.2f} % classified right", 100.0 * *report.accuracy) : "";
  std::string rank;
  if (report.best_step >= 0) {
    const std::string best = format_fixed(report.best_loss, 4);
    rank = report.is_best() ? ", the best so far"
                            : fmt::format(" (best: {} at step {})", best, report.best_step);
    best_ = fmt::format("best val {} at {}", best, report.best_step);
    is_newest_shown_ = false;  // the line shows the best validation before this one
  }
  say(fmt::format("step {}: validation loss {}{}{}{}", report.step,
                  format_fixed(report.val_loss, 4), bits, right, rank));
}

void TrainProgress::on_sample(const SampleReport& report) {
  say(fmt::format("step {}: sample: {}", report.step, report.text));
}

void TrainProgress::on_checkpoint(const CheckpointReport& report) {
  say(fmt::format("step {}: saved {} in {}", report.step, report.path,
                  format_seconds(report.seconds)));
}

void TrainProgress::on_message(std::string_view message) { say(std::string(message)); }

}  // namespace trireme
