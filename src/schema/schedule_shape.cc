#include "schema/schedule_shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace trireme {
namespace {

// Ranks and chunks are 16-bit in an Action; the rest guards against sizes nobody means.
constexpr int kMostScheduleRanks = 32767;
constexpr int64_t kMostScheduleActions = 200'000'000;

using Found = std::optional<ShapeProblem>;

Found can_interleave(const ScheduleShape& shape) {
  const int p = shape.num_ranks;
  const int m = shape.num_microbatches;
  if (m % p == 0) return std::nullopt;
  const int below = m / p * p;
  const std::string choices =
      below > 0 ? fmt::format("{} or {}", below, below + p) : fmt::format("{}", p);
  return ShapeProblem{ErrorKind::Infeasible,
                      fmt::format("interleaved needs microbatches divisible by stages: {} is no "
                                  "multiple of {}",
                                  m, p),
                      fmt::format("try {} microbatches, or 1f1b", choices)};
}

Found can_dualpipe(const ScheduleShape& shape) {
  const int p = shape.num_ranks;
  const int m = shape.num_microbatches;
  if (p % 2 != 0) {
    return ShapeProblem{
        ErrorKind::Infeasible,
        fmt::format("dualpipe needs an even number of stages, the two directions meet between the "
                    "middle ones: {} is odd",
                    p),
        fmt::format("try {} or {}, or dualpipev", std::max(2, p - 1), p + 1)};
  }
  if (m % 2 == 0 && m >= 2 * p) return std::nullopt;
  const std::string choices =
      m > 2 * p ? fmt::format("{} or {}", m - 1, m + 1) : fmt::format("{}", 2 * p);
  return ShapeProblem{ErrorKind::Infeasible,
                      fmt::format("dualpipe needs an even number of microbatches, at least twice "
                                  "the stages (2 x {} = {}): got {}",
                                  p, 2 * p, m),
                      fmt::format("try {}", choices)};
}

Found can_dualpipev(const ScheduleShape& shape) {
  const int p = shape.num_ranks;
  const int m = shape.num_microbatches;
  if (m >= 2 * p) return std::nullopt;
  return ShapeProblem{
      ErrorKind::Infeasible,
      fmt::format("dualpipev needs at least twice as many microbatches as stages: {} is less than "
                  "2 x {} = {}",
                  m, p, 2 * p),
      fmt::format("try {} microbatches{}", 2 * p,
                  m >= 2 ? fmt::format(" or at most {} stages", m / 2) : "")};
}

struct KindRules {
  ScheduleTraits traits;
  Found (*rule)(const ScheduleShape&) = nullptr;  // null: every shape
};

// [ScheduleKind]
const KindRules kKindRules[] = {
    {{.merges_backward = true, .is_serial = true}},
    {{.merges_backward = true, .live = LiveMicrobatches::All}},
    {{.merges_backward = true, .live = LiveMicrobatches::StagesLeft}},
    {{.chunks = ChunkRule::Any, .merges_backward = true}, can_interleave},
    {{.live = LiveMicrobatches::StagesLeft}},
    {{.live = LiveMicrobatches::StagesLeft}},
    {{.chunks = ChunkRule::Two, .placement = StagePlacement::V}},
    {{.chunks = ChunkRule::Two, .placement = StagePlacement::Bidir}, can_dualpipe},
    {{.chunks = ChunkRule::Two, .placement = StagePlacement::V}, can_dualpipev},
};

const KindRules& rules_of(ScheduleKind kind) {
  TRIREME_CHECK(kind != ScheduleKind::Auto, "auto is no schedule of its own");
  return kKindRules[size_t(kind)];
}

Found problem_of_chunks(ScheduleKind kind, int num_chunks) {
  const ChunkRule rule = traits_of(kind).chunks;
  if (rule == ChunkRule::Any) return std::nullopt;
  const int needed = rule == ChunkRule::One ? 1 : 2;
  if (num_chunks == needed) return std::nullopt;
  const std::string_view instead = needed == 1 ? ", or interleaved, zb_v or dualpipev" : "";
  return ShapeProblem{ErrorKind::Usage,
                      fmt::format("{} has {} chunk{} per rank: chunks = {} cannot be",
                                  name_of(kind), needed, needed == 1 ? "" : "s", num_chunks),
                      fmt::format("try {}{}", needed, instead)};
}

}  // namespace

const ScheduleTraits& traits_of(ScheduleKind kind) { return rules_of(kind).traits; }

int default_chunks(ScheduleKind kind) { return traits_of(kind).chunks == ChunkRule::One ? 1 : 2; }

std::optional<ShapeProblem> problem_of_counts(const ScheduleShape& shape) {
  for (const auto& [what, count] : {std::pair{"stages", shape.num_ranks},
                                    {"microbatches", shape.num_microbatches},
                                    {"chunks", shape.num_chunks}}) {
    if (count >= 1) continue;
    return ShapeProblem{ErrorKind::Usage, fmt::format("{} = {} must be at least 1", what, count),
                        "try 1"};
  }
  if (shape.num_ranks > kMostScheduleRanks || shape.num_chunks > kMostScheduleRanks) {
    return ShapeProblem{ErrorKind::Usage,
                        fmt::format("stages = {} and chunks = {} must be at most {}",
                                    shape.num_ranks, shape.num_chunks, kMostScheduleRanks),
                        "take fewer"};
  }
  const double actions = 3.0 * shape.num_ranks * shape.num_chunks * shape.num_microbatches;
  if (actions <= double(kMostScheduleActions)) return std::nullopt;
  return ShapeProblem{ErrorKind::Usage,
                      fmt::format("{} stages x {} chunks x {} microbatches would be {:.0f} "
                                  "actions; at most {} are supported",
                                  shape.num_ranks, shape.num_chunks, shape.num_microbatches,
                                  actions, kMostScheduleActions),
                      "take fewer of one of them"};
}

std::optional<ShapeProblem> problem_of_shape(ScheduleKind kind, const ScheduleShape& shape) {
  if (Found counts = problem_of_counts(shape)) return counts;
  if (Found chunks = problem_of_chunks(kind, shape.num_chunks)) return chunks;
  const KindRules& rules = rules_of(kind);
  return rules.rule == nullptr ? std::nullopt : rules.rule(shape);
}

}  // namespace trireme
