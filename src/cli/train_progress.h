#pragma once

#include "cli/command_io.h"
#include "cli/progress_line.h"
#include "session/session.h"
#include "train/observer.h"

namespace trireme {

// Shows a training run: its description, a progress line, and its events.
class TrainProgress : public RunObserver {
 public:
  explicit TrainProgress(CommandIo& io);

  // Describes the plan, but only once and not in a process that replaces a lost one.
  void begin(const RunPlan& plan, const TrainPosition& position, bool is_first_epoch);
  void end();

  void on_step(const StepReport& report) override;
  void on_eval(const EvalReport& report) override;
  void on_sample(const SampleReport& report) override;
  void on_checkpoint(const CheckpointReport& report) override;
  void on_message(std::string_view message) override;

 private:
  void show_newest();
  void say(const std::string& text);

  CommandIo& io_;
  ProgressLine line_;
  const char* speed_unit_ = " tok/s";
  int64_t rank_bytes_ = 0;  // of the rank that needs the most
  int64_t first_step_ = 0;  // of this run
  bool is_described_ = false;
  int64_t begin_ns_ = 0;
  int64_t shown_ns_ = 0;
  StepReport newest_;
  bool is_newest_shown_ = true;
  std::string best_;  // text of the best validation so far; "": none
};

}  // namespace trireme
