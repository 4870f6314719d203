#pragma once

#include <string>
#include <utility>
#include <vector>

#include "train/engine.h"
#include "train/rank_measurement.h"

namespace trireme {

// Times and bytes of a rank's steps, recorded without allocation.
class StepMeter {
 public:
  explicit StepMeter(const Engine& engine);

  // Called before each step, so that traffic of evaluations and checkpoints between steps is not
  // counted.
  void begin();
  void record(const Executor& executor, double step_s);
  // Returns the times of the median step. Its parts are means over the middle half of the steps,
  // sorted by duration. They are scaled so that they add up to the median. The first two steps are
  // left out.
  StepTimes typical_times() const;
  // Of the last step that was recorded.
  const StepTimes& newest() const { return newest_; }
  // Mean bytes sent per step, in the order of the engine's axes.
  const std::vector<int64_t>& step_bytes() const { return step_bytes_; }

 private:
  const Engine& engine_;
  std::vector<StepTimes> steps_;  // a ring buffer of the newest steps
  StepTimes newest_;
  size_t num_recorded_ = 0;
  std::vector<std::pair<std::string, Traffic>> before_;
  std::vector<int64_t> bytes_, step_bytes_;
};

// Returns the measurements of all ranks, on all ranks.
std::vector<RankMeasurement> gather_measurements(Engine& engine, const StepMeter& meter);

}  // namespace trireme
