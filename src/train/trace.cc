#include "train/trace.h"

#include <fmt/format.h>

#include <sstream>

#include "base/chrome_trace.h"
#include "base/file.h"

namespace trireme {
namespace {

constexpr ChromeTraceWriter::Track kActions{0, 0};
constexpr ChromeTraceWriter::Track kUnits{0, 1};

const char* category_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::F:
      return "forward";
    case ActionKind::B:
      return "backward_input";
    case ActionKind::W:
      return "backward_weight";
    case ActionKind::BW:
      return "backward";
    case ActionKind::Step:
      return "optimizer";
    default:
      return "gradient_sum";
  }
}

std::string unit_name(const RunPlan& plan, int unit) {
  const int first_layer = plan.stage.has_embedding ? 1 : 0;
  if (unit < first_layer) return "embedding";
  const int64_t layer = unit - first_layer;
  if (layer >= plan.stage.num_layers) return "head and loss";
  return fmt::format("layer {}", plan.stage.first_layer + layer);
}

}  // namespace

StepTrace::StepTrace(const RunPlan& plan, int64_t first_step, int64_t num_steps)
    : plan_(plan), first_step_(first_step), steps_(size_t(std::max<int64_t>(0, num_steps))) {
  const size_t num_units = size_t(plan.stage.num_layers) + 2;
  for (TracedStep& step : steps_) {
    step.actions.reserve(plan.program.size());
    step.units.reserve(plan.program.size() * num_units);
  }
}

void StepTrace::record(int64_t step, const Executor& executor) {
  if (step < first_step_ || num_recorded_ == steps_.size()) return;
  TracedStep& traced = steps_[num_recorded_++];
  traced.step = step;
  traced.actions.assign(executor.action_times().begin(), executor.action_times().end());
  traced.units.assign(executor.unit_times().begin(), executor.unit_times().end());
}

Status StepTrace::write(const std::string& path) const {
  std::ostringstream text;
  {
    ChromeTraceWriter writer(text);
    writer.name_process(0, "rank 0, measured");
    writer.name_track(kActions, "program");
    writer.name_track(kUnits, "layers");
    const int64_t origin_ns = num_recorded_ > 0 ? steps_[0].actions.front().begin_ns : 0;
    const auto seconds = [&](int64_t ns) { return double(ns - origin_ns) * 1e-9; };
    for (size_t i = 0; i < num_recorded_; ++i) {
      const TracedStep& step = steps_[i];
      const std::string args = fmt::format("\"step\":{}", step.step);
      for (size_t a = 0; a < step.actions.size(); ++a) {
        const Action& action = plan_.program[a];
        writer.complete(kActions, to_string(action, 1), category_of(action.kind),
                        seconds(step.actions[a].begin_ns), seconds(step.actions[a].end_ns), args);
      }
      for (const UnitTime& unit : step.units) {
        writer.complete(kUnits, unit_name(plan_, unit.unit),
                        category_of(plan_.program[size_t(unit.action)].kind),
                        seconds(unit.time.begin_ns), seconds(unit.time.end_ns), args);
      }
    }
  }
  return write_file_atomically(path, text.str());
}

}  // namespace trireme
