#include "observe/write_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/chrome_trace.h"
#include "base/clock.h"
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

// The moment at which a trace begins, by both clocks.
struct Origin {
  int64_t monotonic_ns = 0;
  double unix_s = 0.0;
};

Origin origin_of(std::span<const StepTrace::TracedStep> steps,
                 std::span<const FailureTimeline> failures) {
  const int64_t now_ns = monotonic_ns();
  const double now_s = unix_time_s();
  int64_t first_ns = steps.empty() ? now_ns : steps[0].actions.front().begin_ns;
  for (const FailureTimeline& failure : failures) {
    const double begin_s = failure.detected_s + 1e-3 * failure.begin_ms;
    first_ns = std::min(first_ns, now_ns - int64_t((now_s - begin_s) * 1e9));
  }
  return {first_ns, now_s - double(now_ns - first_ns) * 1e-9};
}

}  // namespace

Status write_trace(const StepTrace& trace, std::span<const FailureTimeline> failures,
                   const std::string& path) {
  const RankPlan& plan = trace.plan();
  const std::span<const StepTrace::TracedStep> steps = trace.steps();
  std::ostringstream text;
  {
    ChromeTraceWriter writer(text);
    writer.name_process(0, fmt::format("rank {}, measured", plan.position));
    writer.name_track(kActions, "program");
    writer.name_track(kUnits, "layers");
    const Origin origin = origin_of(steps, failures);
    const auto seconds = [&](int64_t ns) { return double(ns - origin.monotonic_ns) * 1e-9; };
    write_failures(writer, failures, origin.unix_s);
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
