#include "cli/sweep_progress.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/units.h"

namespace trireme {
namespace {

constexpr int64_t kSweepRedrawNs = 100'000'000;

}  // namespace

SweepProgress::SweepProgress(CommandIo& io, size_t num_trials)
    : line_(io.err, standard_progress_style(io.err_is_terminal, io.color)),
      num_trials_(num_trials),
      begin_ns_(monotonic_ns()) {}

void SweepProgress::begin_trial(const std::string& name, size_t number, int64_t later_steps) {
  name_ = name;
  trial_ = fmt::format("trial {}/{}", number, num_trials_);
  later_steps_ = later_steps;
}

void SweepProgress::resume_trial(int64_t done_steps) {
  if (done_steps > 0) say(fmt::format("{}: resumed after step {}", name_, done_steps));
}

void SweepProgress::say(const std::string& text) { line_.print(text); }

void SweepProgress::finish() { line_.finish(); }

void SweepProgress::on_step(const StepReport& report) {
  ++trained_steps_;
  const int64_t now_ns = monotonic_ns();
  if (now_ns - shown_ns_ < kSweepRedrawNs && report.step != report.total_steps) return;
  shown_ns_ = now_ns;
  show(report);
}

// The time per step has everything in it: starts, validations and saves.
void SweepProgress::show(const StepReport& report) {
  const double per_step_s = double(shown_ns_ - begin_ns_) * 1e-9 / double(trained_steps_);
  const int64_t left = report.total_steps - report.step + later_steps_;
  std::vector<std::string> parts = {
      trial_, fmt::format("step {}/{}", report.step, report.total_steps),
      "loss " + format_fixed(report.loss, 4),
      fmt::format("ETA {}", format_duration(per_step_s * double(left)))};
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
