#include "session/goodput_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "comm/fabric.h"
#include "goodput/failure_posterior.h"
#include "goodput/measured_share.h"

namespace trireme {
namespace {

// The counts are told every 200th of the time so far, but within these limits.
constexpr int64_t kTellPart = 200;
constexpr int64_t kTellLeastNs = 1'000'000'000, kTellMostNs = 60'000'000'000;
constexpr double kToldChange = 1.2;   // factor of an interval
constexpr double kAgreeEveryS = 1.0;  // ranks exchange what they have measured
constexpr int64_t kFewestSteps = 3;   // until a step is known

double seconds(int64_t ns) { return double(ns) * 1e-9; }
int64_t nanoseconds(double s) { return int64_t(s * 1e9); }

}  // namespace

GoodputRecord::GoodputRecord(const GoodputFacts& facts)
    : facts_(facts),
      own_page_(facts.page == nullptr ? std::make_unique<JobPage>() : nullptr),
      page_(facts.page == nullptr ? *own_page_ : *facts.page),
      disk_save_s_(facts.copy_s),
      memory_save_s_(facts.copy_s) {}

void GoodputRecord::begin(std::vector<RunObserver*> others,
                          std::function<void(const std::string&)> tell) {
  others_ = std::move(others);
  tell_ = std::move(tell);
  told_ns_ = steady_now_ns();
  if (page_.begun_ns == 0) page_.begun_ns = told_ns_;
}

void GoodputRecord::on_step(const StepReport& report) {
  step_ = report.step;
  saving_s_ += report.saving_s;
  steps_s_ += report.step_s;
  ++num_steps_;
  if (facts_.page != nullptr && report.step <= page_.furthest_step) {
    page_.redone_ns += nanoseconds(report.step_s);  // what is saved meanwhile is in lost_ns
  } else {
    page_.saving_ns += nanoseconds(report.saving_s);
    const double stragglers_s = std::min(report.straggler_s, report.exposed_comm_s);
    page_.compute_ns += nanoseconds(report.compute_s);
    page_.bubble_ns += nanoseconds(report.bubble_s);
    page_.straggler_ns += nanoseconds(stragglers_s);
    page_.exposed_ns += nanoseconds(report.exposed_comm_s - stragglers_s);
  }
  const int64_t now = steady_now_ns();
  const int64_t part_ns = (now - page_.begun_ns) / kTellPart;
  if (now - told_ns_ < std::clamp(part_ns, kTellLeastNs, kTellMostNs)) return;
  told_ns_ = now;
  const GoodputReport spent = this->report(saving_s_);
  for (RunObserver* observer : others_) observer->on_goodput(spent);
}

int64_t GoodputRecord::best_steps(double save_s, int64_t failures) const {
  if (num_steps_ == 0) return 1;
  const double seconds_of_run = seconds(steady_now_ns() - page_.begun_ns);
  return best_steps_between_saves(save_s,
                                  posterior_failures_per_s(facts_.hosts, failures, seconds_of_run),
                                  steps_s_ / double(num_steps_));
}

int64_t GoodputRecord::chosen(int64_t configured, int64_t best, int64_t former, const char* key,
                              double save_s) {
  if (configured != kAutoSteps) return configured;
  const double change = double(std::max(best, former)) / double(std::min(best, former));
  if (former > 1 && change < kToldChange) return former;
  if (tell_ && best != former) {
    tell_(fmt::format(
        "step {}: {} is {} step{} from now on ({}), because a save holds training up "
        "for {}",
        step_, key, best, best == 1 ? "" : "s",
        format_seconds(double(best) * steps_s_ / double(num_steps_)), format_seconds(save_s)));
  }
  return best;
}

SaveIntervals GoodputRecord::intervals(const SaveCounts& counts) {
  if (counts.saved > 0) {
    disk_save_s_ = (counts.stall_s + counts.waited_s) / double(counts.saved);
  }
  if (counts.in_memory > 0) memory_save_s_ = counts.memory_stall_s / double(counts.in_memory);
  has_measured_ = (counts.saved > 0 || facts_.config->checkpoint.every == 0) &&
                  (counts.in_memory > 0 || !wants_memory_checkpoints(*facts_.config));
  intervals_.agree_after = 1;
  if (num_steps_ < kFewestSteps) return intervals_;
  const bool has_memory = counts.in_memory > 0;
  const int64_t from_memory = page_.recoveries_from_memory;
  const int64_t from_disk = page_.recoveries_from_disk;
  const CheckpointConfig& wanted = facts_.config->checkpoint;
  // Failures after which the memory has a checkpoint are no reason to save on disk.
  intervals_.disk =
      chosen(wanted.every, best_steps(disk_save_s_, from_disk + (has_memory ? 0 : from_memory)),
             std::max<int64_t>(1, intervals_.disk), "checkpoint.every", disk_save_s_);
  intervals_.memory =
      chosen(wanted.memory_every, best_steps(memory_save_s_, from_memory + from_disk),
             std::max<int64_t>(1, intervals_.memory), "checkpoint.memory_every", memory_save_s_);
  intervals_.agree_after =
      std::max<int64_t>(1, int64_t(kAgreeEveryS * double(num_steps_) / steps_s_));
  return intervals_;
}

double GoodputRecord::predicted() const {
  if (num_steps_ == 0) return 1.0;
  const double step_s = steps_s_ / double(num_steps_);
  const CheckpointConfig& wanted = facts_.config->checkpoint;
  const auto interval_s = [&](int64_t configured, int64_t tuned) {
    const int64_t steps = configured == kAutoSteps ? tuned : configured;
    return double(steps > 0 ? steps : facts_.config->run.steps) * step_s;
  };
  MeasuredJob job{
      .step_s = step_s,
      .disk = {.interval_s = interval_s(wanted.every, intervals_.disk), .save_s = disk_save_s_}};
  if (facts_.page != nullptr && wants_memory_checkpoints(*facts_.config)) {
    job.memory = SavePolicy{.interval_s = interval_s(wanted.memory_every, intervals_.memory),
                            .save_s = memory_save_s_,
                            .delay_s = step_s};
  }
  const double all_s = seconds(steady_now_ns() - page_.begun_ns);
  if (!has_measured_ && page_.saving_ns > 0) {  // saves cost what they have cost in earlier epochs
    job.disk.save_s = seconds(page_.saving_ns) / all_s * job.disk.interval_s;
    if (job.memory) job.memory->save_s = 0.0;
  }
  const int64_t from_memory = page_.recoveries_from_memory;
  const int64_t all = from_memory + page_.recoveries_from_disk;
  const MeasuredRecovery mean{.first_step_s =
                                  all == 0 ? 0.0 : seconds(page_.recovery_ns) / double(all)};
  job.recoveries.assign(size_t(all), mean);
  for (int64_t i = 0; i < from_memory; ++i) job.recoveries[size_t(i)].is_from_memory = true;
  return predicted_share(job, posterior_failures_per_s(facts_.hosts, all, all_s));
}

GoodputReport GoodputRecord::report(double saving_s) {
  page_.saving_ns += nanoseconds(saving_s - saving_s_);
  saving_s_ = saving_s;
  GoodputReport report{.step = step_,
                       .all_s = seconds(steady_now_ns() - page_.begun_ns),
                       .compute_s = seconds(page_.compute_ns),
                       .exposed_comm_s = seconds(page_.exposed_ns),
                       .bubble_s = seconds(page_.bubble_ns),
                       .stragglers_s = seconds(page_.straggler_ns),
                       .saving_s = seconds(page_.saving_ns),
                       .redone_s = seconds(page_.redone_ns)};
  report.failures_s = std::max(0.0, seconds(page_.lost_ns) - report.redone_s);
  report.other_s = std::max(0.0, report.all_s - report.compute_s - report.exposed_comm_s -
                                     report.bubble_s - report.stragglers_s - report.saving_s -
                                     report.failures_s - report.redone_s);
  report.predicted = predicted();
  return report;
}

}  // namespace trireme
