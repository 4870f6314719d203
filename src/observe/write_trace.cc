#include "observe/write_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/chrome_trace.h"
#include "base/clock.h"
#include "base/file.h"

namespace trireme {
namespace {

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

int64_t trace_begin_ns(const StepTrace& trace, std::span<const FailureTimeline> failures) {
  const int64_t now_ns = monotonic_ns();
  const double now_s = unix_time_s();
  int64_t first_ns = trace.steps().empty() ? INT64_MAX : trace.steps()[0].actions.front().begin_ns;
  for (const FailureTimeline& failure : failures) {
    const double begin_s = failure.detected_s + 1e-3 * failure.begin_ms;
    first_ns = std::min(first_ns, now_ns - int64_t((now_s - begin_s) * 1e9));
  }
  return first_ns;
}

Status write_trace(const StepTrace& trace, std::span<const FailureTimeline> failures,
                   int64_t origin_ns, const std::string& path) {
  const RankPlan& plan = trace.plan();
  const ChromeTraceWriter::Track actions{plan.position, 0};
  const ChromeTraceWriter::Track units{plan.position, 1};
  std::ostringstream text;
  {
    ChromeTraceWriter writer(text);
    writer.name_process(plan.position, fmt::format("rank {}, measured", plan.position));
    writer.name_track(actions, "program");
    writer.name_track(units, "layers");
    const auto seconds = [&](int64_t ns) { return double(ns - origin_ns) * 1e-9; };
    write_failures(writer, failures, unix_time_s() - seconds(monotonic_ns()));
    for (const StepTrace::TracedStep& step : trace.steps()) {
      const std::string args = fmt::format("\"step\":{}", step.step);
      for (size_t a = 0; a < step.actions.size(); ++a) {
        const Action& action = plan.program[a];
        writer.complete(actions, to_string(action, trace.num_chunks()), category_of(action.kind),
                        seconds(step.actions[a].begin_ns), seconds(step.actions[a].end_ns), args);
      }
      for (const UnitTime& unit : step.units) {
        const Action& action = plan.program[size_t(unit.action)];
        const StageSpec& stage = plan.chunks[size_t(action.chunk)].stage;
        writer.complete(units, unit_name(stage, unit.unit), category_of(action.kind),
                        seconds(unit.time.begin_ns), seconds(unit.time.end_ns), args);
      }
    }
  }
  return write_file_atomically(path, text.str());
}

}  // namespace trireme
