#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/executor.h"

namespace trireme {

// Returns "embedding", "layer 3" or "head and loss".
std::string unit_name(const StageSpec& stage, int unit);

// The timeline of a few steps. It is kept in memory reserved beforehand and written as a
// Chrome/Perfetto trace at the end of the run.
class StepTrace {
 public:
  struct TracedStep {
    int64_t step = 0;
    std::vector<ActionTime> actions;
    std::vector<UnitTime> units;
  };

  // Records steps first_step to first_step + num_steps - 1.
  StepTrace(const RankPlan& plan, int num_chunks, int64_t first_step, int64_t num_steps);

  void record(int64_t step, const Executor& executor);
  std::span<const TracedStep> steps() const { return {steps_.data(), num_recorded_}; }
  Status write(const std::string& path) const;

 private:
  const RankPlan& plan_;
  int num_chunks_;
  int64_t first_step_;
  std::vector<TracedStep> steps_;
  size_t num_recorded_ = 0;
};

}  // namespace trireme
