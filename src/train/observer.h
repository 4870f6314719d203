#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Reports of a running session. The library prints nothing: the command line prints these reports,
// and metrics.jsonl stores them.
struct StepReport {
  int64_t step = 0;  // counts from 1
  int64_t total_steps = 0;
  double loss = 0.0;  // nats per valid token, before this step's update
  double lr = 0.0;
  double grad_norm = 0.0;  // before clipping
  int64_t tokens = 0;      // of this step
  double step_s = 0.0;
  double tokens_per_s = 0.0;
  double mfu = 0.0;
  bool skipped = false;  // the gradient was not finite, so nothing was updated
  int64_t skipped_steps = 0;
  double loss_scale = 0.0;  // of this step; 0: no loss scale
  // Tokens of a batch (train/noise_scale.h); absent in steps that do not measure it.
  std::optional<double> noise_scale;
  // Only for a model with experts: StepResult::expert_loads. Valid only during the call.
  std::span<const int64_t> expert_loads;
  int64_t num_experts = 0;
  // Means over layers and tokens, without their weights in the loss. Absent if the model is not
  // trained on them.
  std::optional<double> aux_loss, z_loss;
  // With model.mtp_depth: the mean over the modules of their losses, per valid token of the step.
  std::optional<double> mtp_loss;
  // With optim.qk_clip: the largest attention logit of the step, and of how many heads it was above
  // the limit, so that their weights were scaled.
  std::optional<double> max_logit;
  int64_t clipped_heads = 0;
  // Parts of step_s on this rank. Without them: how long training stood still for saves since the
  // report before, in the step and between steps.
  double compute_s = 0.0;
  double exposed_comm_s = 0.0;
  double bubble_s = 0.0;
  double saving_s = 0.0;
  double straggler_s = 0.0;     // of exposed_comm_s, waits for slower ranks of the same stage
  std::optional<double> epoch;  // passes over the training data; absent: the data never end
  int64_t peak_bytes = 0;       // largest use of planned memory so far, on this rank
};
// Means that a rank has measured over its steps since the report before, in seconds per step.
struct RankTimes {
  double compute_s = 0.0;
  double exposed_comm_s = 0.0;
  double bubble_s = 0.0;
  int64_t peak_bytes = 0;  // largest use of planned memory so far
};
// Where the time of a run went since training began, in seconds, over all epochs of its job.
struct GoodputReport {
  int64_t step = 0;
  double all_s = 0.0;
  double compute_s = 0.0;
  double exposed_comm_s = 0.0;
  double bubble_s = 0.0;
  double stragglers_s = 0.0;
  double saving_s = 0.0;
  double failures_s = 0.0;  // from failures to the next steps
  double redone_s = 0.0;    // steps that were done again
  double other_s = 0.0;     // evaluations, samples and reports
  double predicted = 1.0;   // effective share by the measured costs and the rate of failures

  // The share of the time that was not lost to saves and failures.
  double effective() const {
    return all_s > 0.0 ? 1.0 - (saving_s + failures_s + redone_s) / all_s : 1.0;
  }
};
// The loss of a step was far above those before it, so the run has gone back.
struct RollbackReport {
  int64_t step = 0;
  double loss = 0.0;
  double z_score = 0.0;
  int64_t resumed_step = 0;
  int64_t first_sample = 0;  // of those that were left out
  int64_t num_samples = 0;
};
// Training skips samples that are left out.
struct SkipReport {
  int64_t step = 0;  // the step that would have trained on them
  int64_t first_sample = 0;
  int64_t num_samples = 0;
};
struct EvalReport {
  int64_t step = 0;
  double val_loss = 0.0;  // nats per token
  // 0: unknown, because the data do not record the length of their text
  double bits_per_byte = 0.0;
  std::optional<double> accuracy;  // share of the images whose class has the largest logit
  double seconds = 0.0;
  std::optional<double> epoch;                                  // as in StepReport
  double best_loss = std::numeric_limits<double>::quiet_NaN();  // lowest val_loss so far
  int64_t best_step = -1;                                       // its step; -1: unknown
  bool is_best() const { return best_step == step; }
};
struct SampleReport {
  int64_t step = 0;
  std::string text;
};
struct CheckpointReport {
  int64_t step = 0;
  std::string path;
  double seconds = 0.0;
  // How long training stood still for it, if it was written while training continued.
  std::optional<double> stall_s = std::nullopt;
};

// Distribution of the elements of a parameter or of its gradient. Bucket i counts the elements in
// (limits[i - 1], limits[i]]. Elements that are not finite are not counted.
struct TensorHistogram {
  std::string name;
  double min = 0.0;
  double max = 0.0;
  int64_t num = 0;
  double sum = 0.0;
  double sum_squares = 0.0;
  std::vector<double> limits, counts;
};
struct HistogramReport {
  int64_t step = 0;
  std::vector<TensorHistogram> weights;  // after the step's update
  std::vector<TensorHistogram> grads;    // of the mean loss, before clipping
};

// The ceiling by which MFU is computed was too low, perhaps because others used the cores while it
// was measured.
struct RaisedPeak {
  int64_t step = 0;     // the first one that beat it
  double before = 0.0;  // FLOP/s, as measured at the start
};

// The newest checkpoint that is complete in the memory of all hosts. Zeros: there is none, or there
// will be no newer ones.
struct MemoryReport {
  int64_t step = 0;         // whose state it has
  int64_t most_redone = 0;  // whole steps that a lost rank or host would have cost at worst so far
  bool operator==(const MemoryReport&) const = default;
};

class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void on_step(const StepReport&) {}
  virtual void on_eval(const EvalReport&) {}
  virtual void on_sample(const SampleReport&) {}
  virtual void on_checkpoint(const CheckpointReport&) {}
  virtual void on_memory_checkpoint(const MemoryReport&) {}
  // A save for which training waits has failed. It is tried again when all observers return, so
  // that one of them can make room first.
  virtual void on_failed_save() {}
  virtual void on_histograms(const HistogramReport&) {}
  virtual void on_goodput(const GoodputReport&) {}
  // Called about once a second, and only if run.prometheus_ranks is set, with [rank] its times.
  virtual void on_ranks(int64_t /*step*/, std::span<const RankTimes>) {}
  virtual void on_rollback(const RollbackReport&) {}
  virtual void on_skip(const SkipReport&) {}
  virtual void on_message(std::string_view) {}
};

}  // namespace trireme
