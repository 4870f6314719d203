#include "program/make_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "base/nearest_name.h"
#include "program/generators.h"

namespace trireme {
namespace {

struct Kind {
  std::string_view name;
  ScheduleTraits traits;
  Schedule (*make)(const ScheduleShape&);
  Status (*rule)(const ScheduleShape&);  // null: every shape is allowed
};

constexpr Kind kKinds[] = {
    {"naive", {.merges_backward = true, .is_serial = true}, make_naive, nullptr},
    {"gpipe", {.merges_backward = true, .live = LiveMicrobatches::All}, make_gpipe, nullptr},
    {"1f1b", {.merges_backward = true, .live = LiveMicrobatches::StagesLeft}, make_1f1b, nullptr},
    {"interleaved",
     {.chunks = ChunkRule::Any, .merges_backward = true},
     make_interleaved,
     can_interleave},
    {"zb_h1", {.live = LiveMicrobatches::StagesLeft}, make_zb_h1, nullptr},
    {"zb_h2", {.live = LiveMicrobatches::StagesLeft}, make_zb_h2, nullptr},
    {"zb_v", {.chunks = ChunkRule::Two, .placement = StagePlacement::V}, make_zb_v, nullptr},
    {"dualpipe",
     {.chunks = ChunkRule::Two, .placement = StagePlacement::Bidir},
     make_dualpipe,
     can_dualpipe},
    {"dualpipev",
     {.chunks = ChunkRule::Two, .placement = StagePlacement::V},
     make_dualpipev,
     can_dualpipev},
};

// Ranks and chunks are 16-bit numbers in an Action. The other limits guard against absurd sizes.
constexpr int kMaxRanks = 32767;
constexpr int64_t kMaxActions = 200'000'000;

const Kind* find_kind(std::string_view name) {
  for (const Kind& kind : kKinds) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

Error unknown_kind(std::string_view name) {
  const std::vector<std::string> kinds = schedule_kinds();
  const std::string nearest = nearest_name(name, kinds);
  const std::string meant = nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
  return {ErrorKind::Usage,
          fmt::format("unknown schedule '{}'{} (one of {})", name, meant, fmt::join(kinds, " "))};
}

Status check_chunks(const Kind& kind, int num_chunks) {
  if (kind.traits.chunks == ChunkRule::Any) return Done{};
  const int needed = kind.traits.chunks == ChunkRule::One ? 1 : 2;
  if (num_chunks == needed) return Done{};
  const std::string_view instead = needed == 1 ? ", or interleaved, zb_v or dualpipev" : "";
  return Error{ErrorKind::Usage,
               fmt::format("{} has {} chunk{} per rank: chunks = {} cannot be; try {}{}", kind.name,
                           needed, needed == 1 ? "" : "s", num_chunks, needed, instead)};
}

}  // namespace

std::vector<std::string> schedule_kinds() {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

Status check_counts(const ScheduleShape& shape) {
  const auto at_least_one = [](std::string_view what, int count) -> Status {
    if (count >= 1) return Done{};
    return Error{ErrorKind::Usage, fmt::format("{} = {} must be at least 1", what, count)};
  };
  TRIREME_TRY_DONE(at_least_one("stages", shape.num_ranks));
  TRIREME_TRY_DONE(at_least_one("microbatches", shape.num_microbatches));
  TRIREME_TRY_DONE(at_least_one("chunks", shape.num_chunks));
  if (shape.num_ranks > kMaxRanks || shape.num_chunks > kMaxRanks) {
    return Error{ErrorKind::Usage, fmt::format("stages = {} and chunks = {} must be at most {}",
                                               shape.num_ranks, shape.num_chunks, kMaxRanks)};
  }
  const double actions = 3.0 * shape.num_ranks * shape.num_chunks * shape.num_microbatches;
  if (actions > static_cast<double>(kMaxActions)) {
    return Error{ErrorKind::Usage,
                 fmt::format("{} stages x {} chunks x {} microbatches would be {:.0f} actions; at "
                             "most {} are supported",
                             shape.num_ranks, shape.num_chunks, shape.num_microbatches, actions,
                             kMaxActions)};
  }
  return Done{};
}

const ScheduleTraits& traits_of(std::string_view kind) {
  const Kind* found = find_kind(kind);
  TRIREME_CHECK(found != nullptr, fmt::format("no schedule '{}'", kind));
  return found->traits;
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

int default_chunks(std::string_view kind) {
  return traits_of(kind).chunks == ChunkRule::One ? 1 : 2;
}

Result<Schedule> make_schedule(std::string_view kind, const ScheduleShape& asked) {
  const Kind* found = find_kind(kind);
  if (found == nullptr) return unknown_kind(kind);
  ScheduleShape shape = asked;
  if (shape.num_chunks == 0) shape.num_chunks = default_chunks(kind);
  TRIREME_TRY_DONE(check_counts(shape));
  TRIREME_TRY_DONE(check_chunks(*found, shape.num_chunks));
  if (found->rule != nullptr) TRIREME_TRY_DONE(found->rule(shape));
  return found->make(shape);
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
