#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/executor.h"

namespace trireme {

// Returns "embedding", "layer 3" or "head and loss".
std::string unit_name(const StageSpec& stage, int unit);

// The timeline of a few steps, kept in memory that is reserved beforehand; write_trace
// (observe/write_trace.h) makes a file of it when the run ends.
class StepTrace {
 public:
  struct TracedStep {
    int64_t step = 0;
    std::vector<ActionTime> actions;
    std::vector<UnitTime> units;
  };

  // Records steps first_step to first_step + num_steps - 1.
  StepTrace(const RankPlan& plan, int num_chunks, int64_t first_step, int64_t num_steps);

  const RankPlan& plan() const { return plan_; }
  int num_chunks() const { return num_chunks_; }
  void record(int64_t step, const Executor& executor);
  std::span<const TracedStep> steps() const { return {steps_.data(), num_recorded_}; }

 private:
  const RankPlan& plan_;
  int num_chunks_;
  int64_t first_step_;
  std::vector<TracedStep> steps_;
  size_t num_recorded_ = 0;
};

}  // namespace trireme
