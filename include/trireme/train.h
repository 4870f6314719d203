#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "trireme/configuration.h"

namespace trireme::api {

struct TrainingStep {
  std::int64_t step = 0;  // from 1
  std::int64_t total_steps = 0;
  double loss = 0.0;  // nats per token, before this step's update
  double lr = 0.0;
  double grad_norm = 0.0;  // before clipping
  std::int64_t tokens = 0;
  double seconds = 0.0;
};

struct TrainRequest {
  std::string out_dir;  // the run directory: metrics.jsonl, summary.json, checkpoints/, ...
  bool resume = false;  // from its newest good checkpoint; else it must be empty
  // Called after every step, on a thread of the library. False: all ranks agree on it in the next
  // step, then save and stop.
  std::function<bool(const TrainingStep&)> on_step;
  // What a user should read: a damaged checkpoint that was skipped, a metric that was lost.
  std::function<void(const std::string&)> on_message;
};

struct TrainResult {
  bool finished = false;  // false: stopped by on_step or run.stop_after, after saving
  std::int64_t steps = 0;
  double final_loss = 0.0;
};

// Trains with all ranks as threads of this process and returns after the last checkpoint.
TrainResult train(const Configuration& configuration, const TrainRequest& request);

}  // namespace trireme::api
