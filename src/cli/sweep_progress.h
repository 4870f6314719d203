#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "cli/command_io.h"
#include "cli/progress_line.h"
#include "train/observer.h"

namespace trireme {

// How long the rest of a sweep takes. A trial begins with what its steps do not have: its session
// is made and the machine is measured. In a short trial this takes longer than all of its steps.
class SweepClock {
 public:
  // Between trials, what the one before has written at its end belongs to the next.
  void begin(double now_s) {
    if (num_begun_ == 0) last_s_ = now_s;
    is_starting_ = true;
  }
  void end_step(double now_s, double step_s);
  double left_s(int64_t steps_left, int64_t trials_left) const;

 private:
  double last_s_ = 0.0;  // end of the last step
  double starts_s_ = 0.0, steps_s_ = 0.0;
  int64_t num_begun_ = 0, num_steps_ = 0;
  bool is_starting_ = true;
};

// Shows how far a sweep is: the trial, its step and loss, and the time until all trials have ended
// if none is stopped early.
class SweepProgress : public RunObserver {
 public:
  SweepProgress(CommandIo& io, size_t num_trials);

  // The trials behind one, which have yet to run.
  struct Later {
    int64_t trials = 0;
    int64_t steps = 0;  // of all of them
  };
  void begin_trial(const std::string& name, size_t number, const Later& later);
  // `done_steps`: of this trial, before it resumed.
  void resume_trial(int64_t done_steps);
  // Shown beside the progress from now on: "best 3.2100 (trial-002)".
  void show_best(const std::string& text);
  void say(const std::string& text);
  void finish();

  void on_step(const StepReport& report) override;
  // Prints a message unless a former trial had one of its kind, perhaps with other numbers. The
  // text before the colon is the kind. Messages about a step are always printed.
  void on_message(std::string_view message) override;

 private:
  void show(const StepReport& report);

  ProgressLine line_;
  size_t num_trials_;
  std::string trial_;  // "trial 3/15"
  std::string name_;
  std::string best_;
  Later later_;
  SweepClock clock_;
  StepReport newest_;  // step 0: none
  int64_t shown_ns_ = 0;
  std::set<std::string> said_;  // kinds of messages
};

}  // namespace trireme
