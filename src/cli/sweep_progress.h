#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "cli/command_io.h"
#include "cli/progress_line.h"
#include "train/observer.h"

namespace trireme {

// Shows how far a sweep is: the trial, its step and loss, and the time until all trials have ended
// if none is stopped early.
class SweepProgress : public RunObserver {
 public:
  SweepProgress(CommandIo& io, size_t num_trials);

  // `later_steps`: of all trials behind this one. `done_steps`: of this one, before it resumed.
  void begin_trial(const std::string& name, size_t number, int64_t later_steps);
  void resume_trial(int64_t done_steps);
  // Shown beside the progress from now on: "best 3.2100 (trial-002)".
  void show_best(const std::string& text) { best_ = text; }
  void say(const std::string& text);
  void finish();

  void on_step(const StepReport& report) override;
  // Of a message that comes in every trial, with other numbers, the first one is printed: what
  // stands before its colon says which kind it is. What happens at a step is always printed.
  void on_message(std::string_view message) override;

 private:
  void show(const StepReport& report);

  ProgressLine line_;
  size_t num_trials_;
  std::string trial_;  // "trial 3/15"
  std::string name_;
  std::string best_;
  int64_t later_steps_ = 0;
  int64_t trained_steps_ = 0;  // by this process
  int64_t begin_ns_ = 0;
  int64_t shown_ns_ = 0;
  std::set<std::string> said_;  // kinds of messages
};

}  // namespace trireme
