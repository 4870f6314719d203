#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "schema/program.h"
#include "schema/run_config_choices.h"

namespace trireme {

struct ScheduleShape {
  int num_ranks = 1;         // p
  int num_microbatches = 1;  // m
  int num_chunks = 0;        // v; 0: default_chunks(kind)
};

// The kinds that have a generator: all but Auto.
inline constexpr ScheduleKind kNamedSchedules[] = {
    ScheduleKind::Naive,       ScheduleKind::Gpipe,    ScheduleKind::OneFOneB,
    ScheduleKind::Interleaved, ScheduleKind::ZbH1,     ScheduleKind::ZbH2,
    ScheduleKind::ZbV,         ScheduleKind::Dualpipe, ScheduleKind::DualpipeV};

// Chunks per rank.
enum class ChunkRule : uint8_t { One, Two, Any };

// Micro-batches whose activations every chunk of a rank holds at one time, at least: one, one for
// each stage from its own to the last, all.
enum class LiveMicrobatches : uint8_t { One, StagesLeft, All };

// What every schedule of a kind has, whatever its shape.
struct ScheduleTraits {
  ChunkRule chunks = ChunkRule::One;
  StagePlacement placement = StagePlacement::Loop;
  bool merges_backward = false;  // no B and W apart: the stage before waits for both
  bool is_serial = false;        // a micro-batch at a time: ranks wait for each other
  LiveMicrobatches live = LiveMicrobatches::One;

  // Ranks that hold each stage's parameters.
  int param_copies() const { return placement == StagePlacement::Bidir ? 2 : 1; }
};

// The traits of one of kNamedSchedules.
const ScheduleTraits& traits_of(ScheduleKind kind);

// Chunks per rank where the shape says 0: 2 where the kind needs or means them, else 1.
int default_chunks(ScheduleKind kind);

// Why a shape has no schedule.
struct ShapeProblem {
  ErrorKind kind = ErrorKind::Usage;
  std::string rule;
  std::string remedy;

  std::string message() const { return rule + "; " + remedy; }
};

// At least one of each, and no more than an Action and the memory can hold. Chunks must be
// resolved.
std::optional<ShapeProblem> problem_of_counts(const ScheduleShape& shape);

// The rule that a shape breaks which every schedule of the kind keeps, or nullopt. Usage: counts
// that no schedule of the kind takes. Infeasible: the kind has no schedule of this shape. Chunks
// must be resolved; `kind` is one of kNamedSchedules.
std::optional<ShapeProblem> problem_of_shape(ScheduleKind kind, const ScheduleShape& shape);

}  // namespace trireme
