#include "train/trace.h"

#include <fmt/format.h>

#include <algorithm>
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
    case ActionKind::StepPiece:
      return "optimizer";
    case ActionKind::SendActivation:
    case ActionKind::RecvActivation:
    case ActionKind::SendGrad:
    case ActionKind::RecvGrad:
    case ActionKind::ReduceGrad:
    case ActionKind::JoinTiedTable:
    case ActionKind::Unshard:
    case ActionKind::Reshard:
      return "transfer";
    default:
      return "gradient_sum";
  }
}

}  // namespace

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

Status StepTrace::write(const std::string& path) const {
  std::ostringstream text;
  {
    ChromeTraceWriter writer(text);
    writer.name_process(0, fmt::format("rank {}, measured", plan_.position));
    writer.name_track(kActions, "program");
    writer.name_track(kUnits, "layers");
    const int64_t origin_ns = num_recorded_ > 0 ? steps_[0].actions.front().begin_ns : 0;
    const auto seconds = [&](int64_t ns) { return double(ns - origin_ns) * 1e-9; };
    for (size_t i = 0; i < num_recorded_; ++i) {
      const TracedStep& step = steps_[i];
      const std::string args = fmt::format("\"step\":{}", step.step);
      for (size_t a = 0; a < step.actions.size(); ++a) {
        const Action& action = plan_.program[a];
        writer.complete(kActions, to_string(action, num_chunks_), category_of(action.kind),
                        seconds(step.actions[a].begin_ns), seconds(step.actions[a].end_ns), args);
      }
      for (const UnitTime& unit : step.units) {
        const Action& action = plan_.program[size_t(unit.action)];
        const StageSpec& stage = plan_.chunks[size_t(action.chunk)].stage;
        writer.complete(kUnits, unit_name(stage, unit.unit), category_of(action.kind),
                        seconds(unit.time.begin_ns), seconds(unit.time.end_ns), args);
      }
    }
  }
  return write_file_atomically(path, text.str());
}

}  // namespace trireme
