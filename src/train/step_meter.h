#pragma once

#include <string>
#include <utility>
#include <vector>

#include "train/engine.h"
#include "train/rank_measurement.h"

namespace trireme {

// What a rank's steps have cost, kept without allocation.
class StepMeter {
 public:
  explicit StepMeter(const Engine& engine);

  // Around a step: what evaluation and checkpoints send between two steps is not theirs.
  void begin();
  void record(const Executor& executor, double step_s);
  // Means over the middle half of the steps by duration, without the first two.
  StepTimes typical_times() const;
  // Sent in a step, the mean of all, in the order of the engine's axes.
  const std::vector<int64_t>& step_bytes() const { return step_bytes_; }

 private:
  const Engine& engine_;
  std::vector<StepTimes> steps_;  // a ring of the last ones
  size_t num_recorded_ = 0;
  std::vector<std::pair<std::string, Traffic>> before_;
  std::vector<int64_t> bytes_, step_bytes_;
};

// What all ranks have measured, on all ranks.
std::vector<RankMeasurement> gather_measurements(Engine& engine, const StepMeter& meter);

}  // namespace trireme
