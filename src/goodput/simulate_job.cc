#include "goodput/simulate_job.h"

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

// A position in training is counted in units, the work between two saves of the most frequent tier.
struct Cycle {
  double unit_s = 0.0;       // of training
  double unit_save_s = 0.0;  // behind every unit
  int64_t units = 1;         // between two saves on disk
  double disk_save_s = 0.0;

  double whole_unit_s() const { return unit_s + unit_save_s; }
  double whole_s() const { return double(units) * whole_unit_s() + disk_save_s; }
};

Cycle cycle_of(const JobPolicy& policy) {
  if (!policy.memory) {
    return {.unit_s = policy.disk.interval_s, .units = 1, .disk_save_s = policy.disk.save_s};
  }
  const double units = std::round(policy.disk.interval_s / policy.memory->interval_s);
  return {.unit_s = policy.memory->interval_s,
          .unit_save_s = policy.memory->save_s,
          .units = std::max<int64_t>(1, int64_t(units)),
          .disk_save_s = policy.disk.save_s};
}

// What a job has done some time after it has resumed.
struct Progress {
  int64_t unit = 0;   // the last one that is saved in the most frequent tier
  int64_t disk = -1;  // the last one that is saved on disk; -1: none since it has resumed
  double work_s = 0.0;
};

// A job that resumes at `start` and runs for `run_s`. Whole cycles are skipped by division.
Progress progress_after(const Cycle& cycle, int64_t start, double run_s) {
  const double cycles = std::floor(run_s / cycle.whole_s());
  double left_s = std::max(0.0, run_s - cycles * cycle.whole_s());
  Progress progress;
  progress.unit = start + int64_t(cycles) * cycle.units;
  const int64_t phase = progress.unit % cycle.units;
  if (cycles > 0.0) progress.disk = progress.unit - phase;
  const int64_t to_disk = cycle.units - phase;  // units up to the next save on disk
  const double to_disk_s = double(to_disk) * cycle.whole_unit_s();
  double begun_s = 0.0;  // of the unit in progress
  if (left_s >= to_disk_s + cycle.disk_save_s) {
    progress.unit += to_disk;
    progress.disk = progress.unit;
    left_s -= to_disk_s + cycle.disk_save_s;
  } else if (left_s >= to_disk_s) {
    progress.unit += to_disk;  // it is being saved on disk
    left_s = 0.0;
  }
  const double units = std::floor(left_s / cycle.whole_unit_s());
  progress.unit += int64_t(units);
  begun_s = std::min(cycle.unit_s, std::max(0.0, left_s - units * cycle.whole_unit_s()));
  progress.work_s = double(progress.unit - start) * cycle.unit_s + begun_s;
  return progress;
}

class JobRun {
 public:
  JobRun(std::span<const JobCause> causes, const JobPolicy& policy)
      : causes_(causes), policy_(policy), cycle_(cycle_of(policy)) {
    time_.down_s.resize(causes.size());
    time_.redone_s.resize(causes.size());
    time_.failures.resize(causes.size());
  }

  void fail(const FailureEvent& event) {
    const auto cause = size_t(event.cause);
    run_until(event.at_s);
    const bool from_memory = policy_.resumes_from_memory(causes_[cause].domain);
    const int64_t resumed = from_memory ? std::max(memory_, disk_) : disk_;
    time_.redone_s[cause] += position_s_ - double(resumed) * cycle_.unit_s;
    ++time_.failures[cause];
    memory_ = resumed;
    position_s_ = double(resumed) * cycle_.unit_s;
    hosts_at_s_ = std::max(hosts_at_s_, event.at_s + event.wait_s);
    resumes_at_s_ = hosts_at_s_ + causes_[cause].restart_s * policy_.restart_factor;
    down_by_ = event.cause;
  }

  JobTime end(double seconds) {
    run_until(seconds);
    time_.useful_s = position_s_;
    return std::move(time_);
  }

 private:
  // A failure while the job is down takes over: the rest of the time is its own.
  void run_until(double at_s) {
    if (down_by_ >= 0) {
      time_.down_s[size_t(down_by_)] += std::min(at_s, resumes_at_s_) - now_s_;
    }
    now_s_ = at_s;
    if (at_s <= resumes_at_s_) return;
    const double run_s = at_s - resumes_at_s_;
    const int64_t start = memory_;  // where the job has resumed
    const Progress progress = progress_after(cycle_, start, run_s);
    position_s_ = double(start) * cycle_.unit_s + progress.work_s;
    time_.saving_s += run_s - progress.work_s;
    const auto after_delay = [&](double delay_s) {
      return delay_s > 0.0 ? progress_after(cycle_, start, std::max(0.0, run_s - delay_s))
                           : progress;
    };
    disk_ = std::max(disk_, after_delay(policy_.disk.delay_s).disk);
    memory_ = policy_.memory ? after_delay(policy_.memory->delay_s).unit : disk_;
    down_by_ = -1;
  }

  std::span<const JobCause> causes_;
  JobPolicy policy_;
  Cycle cycle_;
  JobTime time_;
  double now_s_ = 0.0;         // up to here the time is accounted for
  double resumes_at_s_ = 0.0;  // the job trains from then on
  double hosts_at_s_ = 0.0;    // all of its hosts are there from then on
  int down_by_ = -1;           // the cause for which it does not train; -1: it has trained
  double position_s_ = 0.0;    // of training that counts
  int64_t memory_ = 0;         // the newest checkpoint in units, in memory
  int64_t disk_ = 0;           // and on disk
};

}  // namespace

JobTime simulate_job(std::span<const FailureEvent> failures, std::span<const JobCause> causes,
                     const JobPolicy& policy, double seconds) {
  JobRun run(causes, policy);
  for (const FailureEvent& event : failures) run.fail(event);
  return run.end(seconds);
}

}  // namespace trireme
