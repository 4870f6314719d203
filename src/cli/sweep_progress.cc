#include "cli/sweep_progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/units.h"

namespace trireme {
namespace {

constexpr int64_t kSweepRedrawNs = 100'000'000;

}  // namespace

void SweepClock::end_step(double now_s, double step_s) {
  if (is_starting_) {
    starts_s_ += std::max(0.0, now_s - last_s_ - step_s);
    steps_s_ += step_s;
    ++num_begun_;
  } else {
    steps_s_ += now_s - last_s_;  // validations and saves are part of it
  }
  is_starting_ = false;
  ++num_steps_;
  last_s_ = now_s;
}

double SweepClock::left_s(int64_t steps_left, int64_t trials_left) const {
  if (num_steps_ == 0) return 0.0;
  return steps_s_ / double(num_steps_) * double(steps_left) +
         starts_s_ / double(num_begun_) * double(trials_left);
}

SweepProgress::SweepProgress(CommandIo& io, size_t num_trials)
    : line_(io.err, standard_progress_style(io.err_is_terminal, io.color)),
      num_trials_(num_trials) {}

void SweepProgress::begin_trial(const std::string& name, size_t number, const Later& later) {
  name_ = name;
  trial_ = fmt::format("trial {}/{}", number, num_trials_);
  later_ = later;
  clock_.begin(double(monotonic_ns()) * 1e-9);
}

// The line of the last step shows it, too.
void SweepProgress::show_best(const std::string& text) {
  best_ = text;
  if (newest_.step > 0) show(newest_);
}

void SweepProgress::resume_trial(int64_t done_steps) {
  if (done_steps > 0) say(fmt::format("{}: resumed after step {}", name_, done_steps));
}

void SweepProgress::say(const std::string& text) { line_.print(text); }

void SweepProgress::finish() { line_.finish(); }

void SweepProgress::on_step(const StepReport& report) {
  const int64_t now_ns = monotonic_ns();
  clock_.end_step(double(now_ns) * 1e-9, report.step_s);
  newest_ = report;
  newest_.expert_loads = {};  // valid only during this call
  if (now_ns - shown_ns_ < kSweepRedrawNs && report.step != report.total_steps) return;
  shown_ns_ = now_ns;
  show(report);
}

void SweepProgress::show(const StepReport& report) {
  const double left_s =
      clock_.left_s(report.total_steps - report.step + later_.steps, later_.trials);
  std::vector<std::string> parts = {
      trial_, fmt::format("step {}/{}", report.step, report.total_steps),
      "loss " + format_fixed(report.loss, 4), fmt::format("ETA {}", format_duration(left_s))};
  if (!best_.empty()) parts.push_back(best_);
  parts.push_back(fmt::format("{} tok/s", format_rate(report.tokens_per_s)));
  parts.push_back(fmt::format("lr {:.2e}", report.lr));
  line_.update(parts);
}

void SweepProgress::on_message(std::string_view message) {
  std::string kind(message.substr(0, message.find(':')));
  std::erase_if(kind, [](char c) { return c >= '0' && c <= '9'; });
  const bool is_of_step = message.starts_with("step ");
  if (!is_of_step && !said_.insert(kind).second) return;
  say(fmt::format("{}: {}", name_, message));
}

}  // namespace trireme
