#include "observe/write_trace.h"

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

Status write_trace(const StepTrace& trace, const std::string& path) {
  const RankPlan& plan = trace.plan();
  const std::span<const StepTrace::TracedStep> steps = trace.steps();
  std::ostringstream text;
  {
    ChromeTraceWriter writer(text);
    writer.name_process(0, fmt::format("rank {}, measured", plan.position));
    writer.name_track(kActions, "program");
    writer.name_track(kUnits, "layers");
    const int64_t origin_ns = !steps.empty() ? steps[0].actions.front().begin_ns : 0;
    const auto seconds = [&](int64_t ns) { return double(ns - origin_ns) * 1e-9; };
    for (const StepTrace::TracedStep& step : steps) {
      const std::string args = fmt::format("\"step\":{}", step.step);
      for (size_t a = 0; a < step.actions.size(); ++a) {
        const Action& action = plan.program[a];
        writer.complete(kActions, to_string(action, trace.num_chunks()), category_of(action.kind),
                        seconds(step.actions[a].begin_ns), seconds(step.actions[a].end_ns), args);
      }
      for (const UnitTime& unit : step.units) {
        const Action& action = plan.program[size_t(unit.action)];
        const StageSpec& stage = plan.chunks[size_t(action.chunk)].stage;
        writer.complete(kUnits, unit_name(stage, unit.unit), category_of(action.kind),
                        seconds(unit.time.begin_ns), seconds(unit.time.end_ns), args);
      }
    }
  }
  return write_file_atomically(path, text.str());
}

}  // namespace trireme
