#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "models/decoder.h"
#include "models/sampling.h"
#include "optim/lr_schedule.h"
#include "tokenizer/tokenizer.h"
#include "train/checkpoint_saver.h"
#include "train/engine.h"
#include "train/memory_saver.h"
#include "train/noise_scale.h"
#include "train/observer.h"
#include "train/step_meter.h"
#include "train/trace.h"
#include "train/train_position.h"

namespace trireme {

// Everything that a trainer reads, and the observers that it reports to. All of it must outlive the
// trainer.
struct TrainerParts {
  const RunPlan& plan;
  Engine& engine;
  const TokenSource* validation = nullptr;  // absent: no evaluation
  const Tokenizer* tokenizer = nullptr;     // absent: no samples
  double bytes_per_token = 0.0;             // of the validation text; 0: unknown
  // The ceiling by which MFU is computed: measured, and raised by every step that beats it.
  double peak_flops = 0.0;
  const std::atomic<int>& stop_signals;  // 1: finish the step, save and stop
  // Checked in addition to the signals; absent: never.
  std::function<bool()> must_stop = {};
  StepTrace* trace = nullptr;  // absent: no timeline is kept
  StepMeter* meter = nullptr;  // absent: no costs are kept
  // Makes a step with other ranks; if empty, the engine makes it.
  std::function<StepResult(double lr, bool stop)> step = {};
  std::vector<RunObserver*> observers;  // empty except on the first rank
  // Checkpoints in the memory of hosts (MemorySaver): their requests and places; absent: there are
  // none.
  CheckpointSaver::MakeRequest memory_request = {};
  MemoryTier memory = {};
};

enum class TrainEnd { Finished, Stopped };

// The step loop: learning rate, step, metrics, evaluation, samples, checkpoints.
class Trainer {
 public:
  // `request` says what a checkpoint of a position contains beside the tensors, and where it goes.
  static Result<Trainer> make(TrainerParts parts, CheckpointSaver::MakeRequest request);
  double peak_flops() const { return parts_.peak_flops; }

  // Trains from `position` to the last step, or until it is stopped. If a save for which training
  // waits fails, or the last one, the run fails.
  Result<TrainEnd> run(TrainPosition position);

  const TrainPosition& position() const { return position_; }
  SaveCounts saves() const;
  double last_loss() const { return last_loss_; }
  // The last one that this run has measured.
  std::optional<double> noise_scale_tokens() const { return noise_scale_.tokens(); }
  // Median over the steps of this run, without the first two.
  double median_step_s() const;

 private:
  Trainer(TrainerParts parts, CheckpointSaver::MakeRequest request, const LrSchedule& schedule);

  Result<TrainEnd> run_steps();

  StepReport run_step();
  // The gradient of a part of the coming step, if its noise is to be measured.
  std::optional<GradNorm> measure_small_batch();
  void tell_step(const StepReport& report);
  void evaluate();
  void sample();
  void count_histograms(int64_t valid_tokens);
  // An error if the run has diverged and cannot recover.
  Status check_progress(const StepReport& report);
  // Waits for the disk, or leaves the writing to a thread beside training.
  Status save_checkpoint(bool waits);
  void begin_memory_checkpoint();
  Status save_last_checkpoint();  // Runtime error if the last step has no checkpoint
  bool should_stop_after(int64_t step) const;
  // First sample of the next step, if nothing runs between this step and the next.
  std::optional<uint64_t> next_sample_after(int64_t step) const;

  TrainerParts parts_;
  std::unique_ptr<CheckpointSaver> saver_;
  std::unique_ptr<MemorySaver> memory_saver_;  // absent: no checkpoints are kept in memory
  LrSchedule schedule_;
  Frame decoder_params_;
  std::unique_ptr<Decoder> decoder_;
  bool stop_ = false;  // some rank was asked to stop
  TrainPosition position_;
  std::vector<double> step_seconds_;
  double last_loss_ = 0.0;
  NoiseScale noise_scale_;
  int64_t saved_step_ = -1;
  int64_t skips_in_a_row_ = 0;
};

// Continues a prompt, for samples during training and for `trireme generate`. Calls `emit` for
// every token as it is drawn. It stops at <|endoftext|> or after num_tokens. A context longer than
// the model's is cut from the left.
void generate(Ctx& ctx, Decoder& decoder, const Tokenizer& tokenizer, TokenSampler& sampler,
              std::vector<int32_t> prompt, int64_t num_tokens,
              const std::function<void(int32_t token)>& emit);

}  // namespace trireme
