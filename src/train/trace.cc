#include "train/trace.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme {

std::string unit_name(const StageSpec& stage, int unit) {
  const int first_layer = stage.has_embedding ? 1 : 0;
  if (unit < first_layer) return "embedding";
  const int64_t layer = unit - first_layer;
  if (layer >= stage.num_layers) return "head and loss";
  return fmt::format("layer {}", stage.first_layer + layer);
}

StepTrace::StepTrace(const RankPlan& plan, int num_chunks, int64_t first_step, int64_t num_steps)
    : plan_(plan),
      num_chunks_(num_chunks),
      first_step_(first_step),
      steps_(size_t(std::max<int64_t>(0, num_steps))) {
  int most_units = 0;
  for (const ChunkTables& chunk : plan.chunks) {
    most_units = std::max(most_units, num_units(chunk.stage));
  }
  for (TracedStep& step : steps_) {
    step.actions.reserve(plan.program.size());
    step.units.reserve(plan.program.size() * size_t(most_units));
  }
}

void StepTrace::record(int64_t step, const Executor& executor) {
  if (step < first_step_ || num_recorded_ == steps_.size()) return;
  TracedStep& traced = steps_[num_recorded_++];
  traced.step = step;
  traced.actions.assign(executor.action_times().begin(), executor.action_times().end());
  traced.units.assign(executor.unit_times().begin(), executor.unit_times().end());
}

}  // namespace trireme
