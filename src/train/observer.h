#pragma once

#include <cstdint>
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
};
struct EvalReport {
  int64_t step = 0;
  double val_loss = 0.0;  // nats per token
  // 0: unknown, because the data do not record the length of their text
  double bits_per_byte = 0.0;
  double seconds = 0.0;
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

class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void on_step(const StepReport&) {}
  virtual void on_eval(const EvalReport&) {}
  virtual void on_sample(const SampleReport&) {}
  virtual void on_checkpoint(const CheckpointReport&) {}
  virtual void on_histograms(const HistogramReport&) {}
  virtual void on_message(std::string_view) {}
};

}  // namespace trireme
