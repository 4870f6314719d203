#include "cli/sweep_trial.h"

#include <fmt/format.h>
#include <unistd.h>

#include <ostream>

#include "api/this_machine.h"
#include "checkpoint/find_checkpoint.h"
#include "cli/exit_code.h"
#include "cli/run_environment.h"
#include "config/cluster_file.h"
#include "observe/report.h"
#include "session/session.h"

namespace trireme {
namespace {

// Judges a trial after every step, and asks it to stop. The trainer reads this before a step, so
// one more step follows.
class TrialWatch : public RunObserver {
 public:
  explicit TrialWatch(const TrialJob& job) : job_(job) {}

  // The trial resumes behind `step`: what is known of it is what it has recorded.
  void begin(int64_t step) {
    Result<TrialCurve> read = read_trial_curve(job_.folder, step);
    curve_ = read.ok() && step > 0 ? std::move(*read) : TrialCurve();
    verdict_ = verdict_of(curve_, job_.rules);
    stop_if_wanted();
  }

  void on_step(const StepReport& report) override {
    was_skipped_ = report.skipped;
    curve_.add_step(report.step, report.loss, report.lr);
    if (!verdict_ && may_decide(curve_, job_.rules)) verdict_ = verdict_of(curve_, job_.rules);
    stop_if_wanted();
  }
  void on_eval(const EvalReport& report) override {
    curve_.add_validation(report.step, report.val_loss);
  }

  // The trainer has given up, because no gradient was finite any more.
  void judge_failure(const std::string& message) {
    if (!verdict_ && was_skipped_) {
      verdict_ = TrialVerdict{TrialState::Diverged, curve_.last_step(), message};
    }
  }

  const std::atomic<int>& stop() const { return stop_; }
  const std::optional<TrialVerdict>& verdict() const { return verdict_; }
  TrialCurve take_curve() { return std::move(curve_); }

 private:
  void stop_if_wanted() {
    if (verdict_ || job_.stop_signals.load(std::memory_order_relaxed) > 0) stop_ = 1;
  }

  const TrialJob& job_;
  TrialCurve curve_;
  std::optional<TrialVerdict> verdict_;
  bool was_skipped_ = false;  // the newest step had a gradient that is not finite
  std::atomic<int> stop_{0};
};

// What a trial has recorded may decide it already, if the sweep was broken off at that moment.
Result<std::optional<TrialEnd>> decided_before(const TrialJob& job) {
  TRIREME_TRY(curve, read_trial_curve(job.folder));
  const std::optional<TrialVerdict> verdict = verdict_of(curve, job.rules);
  if (!verdict) return std::optional<TrialEnd>();
  return std::optional<TrialEnd>({.verdict = verdict, .curve = std::move(curve)});
}

// A trial that has saved something resumes from it, and not from the checkpoint of the sweep.
Result<bool> begins_with(const TrialJob& job) {
  if (job.resume.empty()) return false;
  TRIREME_TRY(own, find_latest_checkpoint(job.folder + "/checkpoints", INT64_MAX));
  return own.path.empty() && own.skipped.empty();
}

Result<SessionResult> run_trial_session(const TrialJob& job, TrialWatch& watch, CommandIo& io) {
  SessionOptions session{.config = job.config.config,
                         .out_dir = job.folder,
                         .resume = ResumeMode::Auto,
                         .host = this_host(),
                         .environment = run_environment(),
                         .stop_signals = watch.stop(),
                         .observers = {&watch, &job.progress},
                         .open_input = io.open_input};
  TRIREME_TRY(is_beginning, begins_with(job));
  if (is_beginning) {
    session.resume = ResumeMode::Path;
    session.resume_path = job.resume;
  }
  if (!session.config.run.hardware.empty()) {
    TRIREME_TRY(hardware, load_hardware(session.config.run.hardware));
    session.hardware = hardware;
  }
  session.on_ready = [&](const RunPlan&, const TrainPosition& position) {
    watch.begin(position.step);
    job.progress.resume_trial(position.step);
  };
  session.on_hang = [&io](const Error& error) {  // it cannot wait for any of its threads
    print_error(in_command(error, "trireme sweep").message, io);
    io.err.flush();
    ::_exit(exit_code(error.kind));
  };
  return run_session(session);
}

}  // namespace

Result<TrialEnd> run_trial(const TrialJob& job, CommandIo& io) {
  TRIREME_TRY(before, decided_before(job));
  if (before) return std::move(*before);
  TrialWatch watch(job);
  const Result<SessionResult> ended = run_trial_session(job, watch, io);
  if (!ended.ok()) {
    watch.judge_failure(ended.error().message);
    if (!watch.verdict()) return job.config.located(ended.error());
  }
  const Status written = write_report(job.folder, job.folder + "/report.html");
  if (!written.ok()) {
    job.progress.on_message("there is no report: " + written.error().message);
  }
  TrialEnd end{.verdict = watch.verdict(), .curve = watch.take_curve()};
  if (end.verdict) return end;
  end.is_interrupted = ended->end == TrainEnd::Stopped;
  if (end.is_interrupted && job.stop_signals == 0) {
    return Error{ErrorKind::Runtime,
                 fmt::format("the trial has stopped after step {} without a reason, such as a "
                             "folder that is gone",
                             ended->position.step)};
  }
  // A trial that had ended before has nothing left to train, and told no step.
  if (!end.is_interrupted && end.curve.last_step() < ended->position.step) {
    TRIREME_TRY(curve, read_trial_curve(job.folder));
    end.curve = std::move(curve);
  }
  return end;
}

}  // namespace trireme
