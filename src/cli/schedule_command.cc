#include "cli/schedule_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ostream>
#include <vector>

#include "base/nearest_name.h"
#include "observe/plan_page.h"
#include "program/action_legend.h"
#include "program/draw_svg.h"
#include "program/make_schedule.h"
#include "sim/search_schedule.h"
#include "sim/simulate.h"

namespace trireme {
namespace {

Status check_kind(const std::string& kind) {
  std::vector<std::string> kinds = schedule_kinds();
  kinds.emplace_back("auto");
  if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) return Done{};
  const std::string nearest = nearest_name(kind, kinds);
  const std::string meant = nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
  return Error{ErrorKind::Usage, fmt::format("unknown schedule '{}'{} (one of {})", kind, meant,
                                             fmt::join(kinds, " "))};
}

std::string counted(int count, std::string_view what) {
  const std::string_view plural = what.ends_with("ch") ? "es" : "s";
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : plural);
}

int peak_live(const Simulation& simulation) {
  int peak = 0;
  for (const RankSimulation& rank : simulation.ranks) peak = std::max(peak, rank.peak_live_w);
  return peak;
}

std::vector<std::pair<std::string, std::string>> facts_of(const Schedule& schedule,
                                                          const Simulation& simulation) {
  return {{"ranks", std::to_string(schedule.num_ranks)},
          {"micro-batches", std::to_string(schedule.num_microbatches)},
          {"makespan", fmt::format("{:g}", simulation.makespan_s)},
          {"bubble", fmt::format("{:.1f}%", 100.0 * simulation.bubbles.of_makespan)},
          {"activations live", std::to_string(peak_live(simulation))}};
}

std::vector<std::string> summary(const Schedule& schedule, const Simulation& simulation,
                                 const OpDurations& times) {
  const Bubbles& bubbles = simulation.bubbles;
  return {
      fmt::format("{}: {}, {} each, {}; times F {:g}, B {:g}, W {:g}, transfer {:g}", schedule.kind,
                  counted(schedule.num_ranks, "rank"), counted(schedule.num_chunks, "chunk"),
                  counted(schedule.num_microbatches, "micro-batch"), times.f, times.b, times.w,
                  times.comm),
      fmt::format("makespan {:g}; bubble {:.4g} of ideal, {:.4g} of makespan, {:.4g} of span; "
                  "at most {} activations live on a rank",
                  simulation.makespan_s, bubbles.of_ideal, bubbles.of_makespan, bubbles.of_span,
                  peak_live(simulation)),
  };
}

Program all_actions(const Schedule& schedule) {
  Program all;
  for (const Program& program : schedule.programs) {
    all.insert(all.end(), program.begin(), program.end());
  }
  return all;
}

}  // namespace

Costs costs_of(const OpDurations& times) {
  return {.stages = {{.f_s = times.f, .b_s = times.b, .w_s = times.w}},
          .link = {.latency_s = times.comm}};
}

Result<Schedule> schedule_of(const ScheduleOptions& options) {
  TRIREME_TRY_DONE(check_kind(options.kind));
  const ScheduleShape shape{options.num_stages, options.num_microbatches, options.num_chunks};
  if (options.kind != "auto") return make_schedule(options.kind, shape);
  return search_schedule(shape, costs_of(options.times), {.max_live = options.memory_limit});
}

Result<ScheduleFormat> parse_schedule_format(std::string_view text) {
  if (text == "text") return ScheduleFormat::Text;
  if (text == "jsonl") return ScheduleFormat::Jsonl;
  if (text == "svg") return ScheduleFormat::Svg;
  if (text == "html") return ScheduleFormat::Html;
  if (text == "trace") return ScheduleFormat::Trace;
  const std::string nearest = nearest_name(text, {"text", "jsonl", "svg", "html", "trace"});
  const std::string meant = nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
  return Error{
      ErrorKind::Usage,
      fmt::format("unknown format '{}'{} (one of text jsonl svg html trace)", text, meant)};
}

Result<OpDurations> parse_schedule_times(std::string_view text) {
  const Error error{ErrorKind::Usage,
                    fmt::format("times '{}' must be four numbers F,B,W,C, none negative, such as "
                                "1,1,1,0",
                                text)};
  double values[4];
  const char* at = text.data();
  const char* end = text.data() + text.size();
  for (int i = 0; i < 4; ++i) {
    if (i > 0 && (at == end || *at++ != ',')) return error;
    const auto [next, code] = std::from_chars(at, end, values[i]);
    if (code != std::errc() || !std::isfinite(values[i]) || values[i] < 0) return error;
    at = next;
  }
  if (at != end) return error;
  return OpDurations{values[0], values[1], values[2], values[3]};
}

Status run_schedule(const ScheduleOptions& options, std::ostream& out) {
  TRIREME_TRY(schedule, schedule_of(options));
  if (options.format == ScheduleFormat::Jsonl) {
    write_jsonl(out, schedule, options.times);
    return Done{};
  }
  TRIREME_TRY(simulation, simulate(schedule, costs_of(options.times)));
  const std::vector<std::string> lines = summary(schedule, simulation, options.times);
  switch (options.format) {
    case ScheduleFormat::Text:
      for (const std::string& line : lines) out << "# " << line << '\n';
      out << "# " << action_legend(all_actions(schedule), schedule.num_chunks) << '\n';
      write_text(out, schedule);
      return Done{};
    case ScheduleFormat::Svg: {
      const DrawnSchedule drawn{schedule, simulation.timeline, ""};
      return draw_svg(out, {&drawn, 1}, {.title = lines[0], .lines = {lines[1]}, .unit = ""});
    }
    case ScheduleFormat::Html:
      out << schedule_page({.name = schedule.kind,
                            .subtitle = lines[0],
                            .facts = facts_of(schedule, simulation),
                            .schedule = schedule,
                            .timeline = simulation.timeline});
      return Done{};
    case ScheduleFormat::Trace: {
      ChromeTraceWriter writer(out);
      write_trace(writer, schedule, simulation.timeline, 0, schedule.kind + ", simulated");
      return Done{};
    }
    case ScheduleFormat::Jsonl:
      break;
  }
  return Done{};
}

}  // namespace trireme
