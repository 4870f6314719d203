#include "program/make_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>

#include "base/check.h"
#include "base/nearest_name.h"
#include "program/generators.h"

namespace trireme {
namespace {

using Generator = Schedule (*)(const ScheduleShape&);

// [ScheduleKind]
constexpr Generator kGenerators[] = {make_naive,       make_gpipe,    make_1f1b,
                                     make_interleaved, make_zb_h1,    make_zb_h2,
                                     make_zb_v,        make_dualpipe, make_dualpipev};
static_assert(std::size(kGenerators) == std::size(kNamedSchedules));

// The kind with this name; nullopt for "auto", which no shape alone decides.
std::optional<ScheduleKind> find_kind(std::string_view name) {
  const std::optional<ScheduleKind> kind = choice_of<ScheduleKind>(name);
  return kind == ScheduleKind::Auto ? std::nullopt : kind;
}

Error unknown_kind(std::string_view name) {
  const std::vector<std::string> kinds = schedule_kinds();
  const std::string nearest = nearest_name(name, kinds);
  const std::string meant = nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
  return {ErrorKind::Usage,
          fmt::format("unknown schedule '{}'{} (one of {})", name, meant, fmt::join(kinds, " "))};
}

Status status_of(const std::optional<ShapeProblem>& problem) {
  return problem ? Status(Error{problem->kind, problem->message()}) : Status(Done{});
}

}  // namespace

std::vector<std::string> schedule_kinds() {
  std::vector<std::string> names;
  for (const ScheduleKind kind : kNamedSchedules) names.emplace_back(name_of(kind));
  return names;
}

Status check_counts(const ScheduleShape& shape) { return status_of(problem_of_counts(shape)); }

const ScheduleTraits& traits_of(std::string_view kind) {
  const std::optional<ScheduleKind> found = find_kind(kind);
  TRIREME_CHECK(found.has_value(), fmt::format("no schedule '{}'", kind));
  return traits_of(*found);
}

int least_live(std::string_view kind, const ScheduleShape& shape, int rank) {
  switch (traits_of(kind).live) {
    case LiveMicrobatches::One:
      return 1;
    case LiveMicrobatches::StagesLeft:
      return std::min(shape.num_microbatches, shape.num_ranks - rank);
    case LiveMicrobatches::All:
      return shape.num_microbatches;
  }
  TRIREME_CHECK(false, "unknown LiveMicrobatches");
}

int least_held(std::string_view kind, const ScheduleShape& shape, int rank) {
  const int of_all_chunks = least_live(kind, shape, rank) * shape.num_chunks;
  if (find_kind(kind) != ScheduleKind::Interleaved) return of_all_chunks;
  const int all = shape.num_microbatches * shape.num_chunks;
  return std::max(of_all_chunks, std::min(interleaved_warmup(shape, rank) + 1, all));
}

Result<Schedule> make_schedule(std::string_view name, const ScheduleShape& asked) {
  const std::optional<ScheduleKind> kind = find_kind(name);
  if (!kind) return unknown_kind(name);
  ScheduleShape shape = asked;
  if (shape.num_chunks == 0) shape.num_chunks = default_chunks(*kind);
  TRIREME_TRY_DONE(status_of(problem_of_shape(*kind, shape)));
  return kGenerators[size_t(*kind)](shape);
}

Schedule empty_schedule(std::string_view kind, const ScheduleShape& shape) {
  return empty_schedule(std::string(kind), shape, traits_of(kind).placement);
}

Schedule empty_schedule(std::string kind, const ScheduleShape& shape, StagePlacement placement) {
  Schedule schedule{.kind = std::move(kind),
                    .num_ranks = shape.num_ranks,
                    .num_microbatches = shape.num_microbatches,
                    .num_chunks = shape.num_chunks,
                    .placement = placement};
  schedule.programs.resize(shape.num_ranks);
  const size_t actions = size_t{3} * shape.num_microbatches * shape.num_chunks;
  for (Program& program : schedule.programs) program.reserve(actions);
  return schedule;
}

}  // namespace trireme
