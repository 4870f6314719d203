#include "cli/compare_schedules.h"

#include <fmt/format.h>

#include <numeric>
#include <ostream>
#include <vector>

#include "program/draw_svg.h"
#include "program/make_schedule.h"
#include "schema/schedule_shape.h"
#include "sim/simulate.h"

namespace trireme {
namespace {

struct Compared {
  Schedule schedule;
  Simulation simulation;
  double stages_per_chunk = 1;  // size of a chunk, where 1/P of the model is 1 (P: ranks)

  // Largest number of live activations on a rank, in units of the activations of 1/P of the model.
  double peak_live() const {
    int peak = 0;
    for (const RankSimulation& rank : simulation.ranks) peak = std::max(peak, rank.peak_live_w);
    return peak * stages_per_chunk;
  }
  int param_copies() const { return schedule.placement == StagePlacement::Bidir ? 2 : 1; }
  int64_t messages() const {
    int64_t sum = 0;
    for (const LinkTraffic& link : simulation.links) sum += link.messages;
    return sum;
  }
};

std::vector<std::string> split(const std::string& kinds) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= kinds.size();) {
    const size_t end = std::min(kinds.find(',', begin), kinds.size());
    names.push_back(kinds.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

Result<Compared> simulated(const std::string& kind, const ScheduleOptions& options) {
  ScheduleOptions own = options;
  own.kind = kind;
  TRIREME_TRY(schedule, schedule_of(own));
  const double part = double(schedule.num_ranks) / num_stages(schedule);
  own.times.f *= part;
  own.times.b *= part;
  own.times.w *= part;
  TRIREME_TRY(simulation, simulate(schedule, costs_of(own.times)));
  return Compared{std::move(schedule), std::move(simulation), part};
}

std::string facts_of(const Compared& compared) {
  return fmt::format(
      "{}: {:g} long, {:.1f} % of it idle; {:g} activations live, parameters {}; {} "
      "messages",
      compared.schedule.kind, compared.simulation.makespan_s,
      100 * compared.simulation.bubbles.of_makespan, compared.peak_live(),
      compared.param_copies() == 1 ? "once" : "twice", compared.messages());
}

void write_table(std::ostream& out, const std::vector<Compared>& all) {
  out << fmt::format("{:<12} {:>9} {:>7} {:>12} {:>11} {:>9}\n", "schedule", "step", "idle",
                     "activations", "parameters", "messages");
  for (const Compared& compared : all) {
    out << fmt::format("{:<12} {:>9g} {:>6.1f}% {:>12g} {:>11} {:>9}\n", compared.schedule.kind,
                       compared.simulation.makespan_s,
                       100 * compared.simulation.bubbles.of_makespan, compared.peak_live(),
                       compared.param_copies() == 1 ? "once" : "twice", compared.messages());
  }
}

Status draw(std::ostream& out, const std::vector<Compared>& all, const std::string& title) {
  std::vector<DrawnSchedule> drawn;
  for (const Compared& compared : all) {
    drawn.push_back({compared.schedule, compared.simulation.timeline, facts_of(compared)});
  }
  return draw_svg(out, drawn, {.title = title, .lines = {}, .unit = ""});
}

}  // namespace

Status compare_schedules(const std::string& kinds, const ScheduleOptions& options,
                         std::ostream& out) {
  if (options.format != ScheduleFormat::Text && options.format != ScheduleFormat::Svg) {
    return Error{ErrorKind::Usage,
                 "--compare prints text or draws svg; set --format to one of them"};
  }
  std::vector<Compared> all;
  for (const std::string& kind : split(kinds)) {
    Result<Compared> compared = simulated(kind, options);
    if (!compared.ok()) return with_context(compared.error(), "--compare");
    all.push_back(std::move(*compared));
  }
  const std::string title = fmt::format(
      "{} ranks, {} micro-batches; times of a whole stage: F {:g}, B {:g}, W {:g}, transfer {:g}",
      options.num_stages, options.num_microbatches, options.times.f, options.times.b,
      options.times.w, options.times.comm);
  if (options.format == ScheduleFormat::Svg) return draw(out, all, title);
  out << "# " << title << '\n'
      << "# activations: most that are alive on a rank, in those of a whole stage; parameters: how "
         "often each is held; messages: of all ranks\n";
  write_table(out, all);
  return Done{};
}

}  // namespace trireme
