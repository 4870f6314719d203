#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "spec/program.h"

namespace trireme {

struct ScheduleShape {
  int num_ranks = 1;         // p
  int num_microbatches = 1;  // m
  int num_chunks = 0;        // v; 0: default_chunks(kind)
};

// naive gpipe 1f1b interleaved zb_h1 zb_h2 zb_v dualpipe dualpipev
std::vector<std::string> schedule_kinds();

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

// Of one of schedule_kinds().
const ScheduleTraits& traits_of(std::string_view kind);

// By ScheduleTraits::live.
int least_live(std::string_view kind, const ScheduleShape& shape, int rank);

// Chunks per rank where nobody says: 1, or 2 where the kind needs or means them.
int default_chunks(std::string_view kind);

// Usage: a misspelt kind, or numbers that no schedule of the kind takes (chunks). Infeasible: a
// shape for which the kind has no schedule. The message has the rule, the numbers and the nearest
// choices.
Result<Schedule> make_schedule(std::string_view kind, const ScheduleShape& shape);

}  // namespace trireme
