#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// What a run tells while it goes on. The library prints nothing: the command line shows these, and
// metrics.jsonl keeps them.
struct StepReport {
  int64_t step = 0;  // from 1
  int64_t total_steps = 0;
  double loss = 0.0;  // nats per valid token, before this step's update
  double lr = 0.0;
  double grad_norm = 0.0;  // before clipping
  int64_t tokens = 0;      // of this step
  double step_s = 0.0;
  double tokens_per_s = 0.0;
  double mfu = 0.0;
  bool skipped = false;  // a gradient was not finite: no update
  int64_t skipped_steps = 0;
  double loss_scale = 0.0;  // of this step; 0: none
  // Of a model with experts: StepResult::expert_loads, for the call alone.
  std::span<const int64_t> expert_loads;
  int64_t num_experts = 0;
  // Means over layers and tokens, without their weights in the loss; of a model trained on them.
  std::optional<double> aux_loss, z_loss;
};
struct EvalReport {
  int64_t step = 0;
  double val_loss = 0.0;       // nats per token
  double bits_per_byte = 0.0;  // 0: the data does not say how many bytes its text had
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
};

// How the elements of a parameter, or of its gradient, are distributed. Bucket i holds those in
// (limits[i - 1], limits[i]]; elements that are not finite are left out.
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
