#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "trireme/configuration.h"

namespace trireme::api {

struct TrainingStep {
  std::int64_t step = 0;  // the first step is 1
  std::int64_t total_steps = 0;
  double loss = 0.0;  // nats per token, before the update of this step
  double lr = 0.0;
  double grad_norm = 0.0;  // global norm of the gradient, before clipping
  std::int64_t tokens = 0;
  double seconds = 0.0;
};

struct TrainRequest {
  std::string out_dir;  // the run directory: metrics.jsonl, summary.json, checkpoints/, ...
  bool resume = false;  // true: start from the newest good checkpoint; false: out_dir must be empty
  // Called after every step, on a thread of the library. If it returns false, all ranks agree in
  // the next step to stop; then they save a checkpoint and training ends.
  std::function<bool(const TrainingStep&)> on_step;
  // Called with messages for the user, such as "a damaged checkpoint was skipped".
  std::function<void(const std::string&)> on_message;
};

struct TrainResult {
  bool finished = false;  // false: on_step or run.stop_after stopped the run after saving
  std::int64_t steps = 0;
  double final_loss = 0.0;
};

// Trains, with all ranks as threads of this process. Returns after the last checkpoint is written.
TrainResult train(const Configuration& configuration, const TrainRequest& request);

}  // namespace trireme::api
