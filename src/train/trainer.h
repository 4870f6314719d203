#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "optim/lr_schedule.h"
#include "tokenizer/tokenizer.h"
#include "train/best_saves.h"
#include "train/checkpoint_saver.h"
#include "train/compute_ceiling.h"
#include "train/corruption_checks.h"
#include "train/engine.h"
#include "train/loss_spike.h"
#include "train/memory_saver.h"
#include "train/noise_scale.h"
#include "train/observer.h"
#include "train/rank_agreement.h"
#include "train/save_schedule.h"
#include "train/step_meter.h"
#include "train/text_samples.h"
#include "train/trace.h"
#include "train/train_position.h"
#include "train/validation_watch.h"

namespace trireme {

// Everything that a trainer reads, and the observers that it reports to. All of it must outlive the
// trainer.
struct TrainerParts {
  const RunPlan& plan;
  Engine& engine;
  const TokenSource* validation = nullptr;  // absent: no evaluation
  const Tokenizer* tokenizer = nullptr;     // absent: no samples
  double bytes_per_token = 0.0;             // of the validation text; 0: unknown
  const TokenSource* train = nullptr;       // for counting epochs; absent: they are not counted
  // The best validation among the checkpoints that the run directory already holds.
  Validation kept_best = {};
  // Those of ComputeCeiling.
  double peak_flops = 0.0;
  std::function<double()> measure_peak = {};
  const std::atomic<int>& stop_signals;  // 1: finish the step, save and stop
  // Checked in addition to the signals; absent: never.
  std::function<bool()> must_stop = {};
  // Called before every step. It may wait until the step may begin, and throws if that may not be.
  std::function<void()> before_step = {};
  StepTrace* trace = nullptr;  // absent: no timeline is kept
  StepMeter* meter = nullptr;  // absent: no costs are kept
  // Makes a step with other ranks; if empty, the engine makes it.
  std::function<StepResult(double lr, bool stop)> step = {};
  std::vector<RunObserver*> observers;  // empty except on the first rank
  // Checkpoints in the memory of hosts (MemorySaver): their requests and places; absent: there are
  // none.
  CheckpointSaver::MakeRequest memory_request = {};
  MemoryTier memory = {};
  // Returns the intervals between saves from measured times. Only on the first rank; if absent, the
  // configured intervals apply.
  std::function<SaveIntervals(const SaveCounts&)> intervals = {};
};

// Settled: the last run.stop_patience validations were not better than the best one.
// Spiked: the loss of the last step is far above those before it (run.spike), and the caller
// decides from where training continues.
enum class TrainEnd { Finished, Stopped, Settled, Spiked };

// Returns true if the last run.stop_patience validations were not better than the best one.
bool has_settled(const RunSection& run, const TrainPosition& position);
// Returns true if the run ends at this position because of run.stop_after.
bool is_at_stop(const RunSection& run, const TrainPosition& position);

// The step loop: learning rate, step, metrics, evaluation, samples, checkpoints.
class Trainer {
 public:
  // `request` says what a checkpoint of a position contains beside the tensors, and where it goes.
  static Result<Trainer> make(TrainerParts parts, CheckpointSaver::MakeRequest request);
  const ComputeCeiling& ceiling() const { return ceiling_; }

  // Trains from `position` to the last step, or until it is stopped. If a save for which training
  // waits fails, or the last one, the run fails.
  Result<TrainEnd> run(TrainPosition position);

  const TrainPosition& position() const { return position_; }
  SaveCounts saves() const;
  CorruptionCounts corruption_checks() const { return checks_->counts(); }
  // Returns the alarm if a check for silent corruption has ended run().
  std::optional<CorruptionAlarm> corruption() const { return checks_->alarm(); }
  // Removes all checkpoints in memory, before the caller restores an older one from disk.
  void remove_memory_checkpoints();
  double last_loss() const { return last_loss_; }
  double last_z_score() const { return spike_.z_score(); }
  // Seconds in which training stood still for the saves of this run.
  double saving_s() const;
  // The last one that this run has measured.
  std::optional<double> noise_scale_tokens() const { return noise_scale_.tokens(); }
  // Median over the steps of this run, without the first two.
  double median_step_s() const;

 private:
  Trainer(TrainerParts parts, CheckpointSaver::MakeRequest request, const LrSchedule& schedule);

  Result<TrainEnd> run_steps();

  void tell(const std::string& message) const;
  void tell_step(const StepReport& report);
  void evaluate();
  // Ends the run after run.stop_patience, with a checkpoint of the last step.
  Result<TrainEnd> settle();
  void write_sample();
  void count_histograms(int64_t valid_tokens);
  // An error if the run has diverged and cannot recover.
  Status check_progress(const StepReport& report);
  // An error if no step since the beginning of the run has changed the weights.
  Status check_updated() const;
  std::string advice_without_updates() const;
  bool should_stop_after(int64_t step) const;
  // Returns true if a checkpoint follows the last step.
  bool saves_next() const;

  // In trainer_step.cc.
  StepReport run_step();
  // Moves the position to the next batch without samples that are left out, and reports the skip.
  void skip_left_out();
  uint64_t next_batch(uint64_t first_sample) const;
  // First sample of the next step, if nothing runs between this step and the next.
  std::optional<uint64_t> next_sample_after(int64_t step) const;
  // The gradient of a part of the coming step, if its noise is to be measured.
  std::optional<GradNorm> measure_small_batch();
  void divide_time(double saving_s, StepReport& report);
  void report_result(const StepResult& result, StepReport& report) const;
  void report_speed(StepReport& report);
  void advance_position(StepReport& report);
  std::optional<double> epoch() const;

  // In trainer_saves.cc.
  // Saves a checkpoint if a schedule or the last validation asks for it.
  Status save_if_wanted();
  // Waits for the disk, or leaves the writing to a thread beside training. A save that fails ends
  // the run only if it is the last one.
  Status save_checkpoint(bool is_last);
  Status save_last_checkpoint();  // Runtime error if the last step has no checkpoint
  bool saves_in_memory_after(int64_t step) const;
  void begin_memory_checkpoint();
  // Tells the observers of a checkpoint in memory that became complete.
  void tell_memory();
  // The ranks tell each other what they have measured, and agree on the intervals of saves.
  void agree_on_intervals();
  void tell_ranks(const std::vector<RankWord>& words);

  TrainerParts parts_;
  std::unique_ptr<CheckpointSaver> saver_;
  std::unique_ptr<MemorySaver> memory_saver_;  // absent: no checkpoints are kept in memory
  std::unique_ptr<CorruptionChecks> checks_;
  LrSchedule schedule_;
  std::unique_ptr<TextSamples> samples_;  // absent: none are written
  bool stop_ = false;                     // some rank was asked to stop
  TrainPosition position_;
  std::vector<double> step_seconds_;
  double last_loss_ = 0.0;
  NoiseScale noise_scale_;
  int64_t saved_step_ = -1;
  int64_t skips_in_a_row_ = 0;
  LossSpike spike_;
  ValidationWatch validations_;
  BestSaves best_saves_;
  SaveSchedule disk_saves_, memory_saves_;
  MemoryReport told_memory_{.step = -1};  // so what a former epoch has told ends with it
  ComputeCeiling ceiling_;
  int64_t agree_at_ = 0;                     // step
  double compute_s_ = 0.0;                   // of the steps since ranks have agreed
  double exposed_s_ = 0.0, bubble_s_ = 0.0;  // likewise
  int64_t num_computed_ = 0;                 // steps
  double straggler_s_ = 0.0;                 // to be reported
  double reported_saving_s_ = 0.0;
};

}  // namespace trireme
