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

// Returns naive, gpipe, 1f1b, interleaved, zb_h1, zb_h2, zb_v, dualpipe and dualpipev.
std::vector<std::string> schedule_kinds();

// Allowed number of chunks per rank.
enum class ChunkRule : uint8_t { One, Two, Any };

// How many micro-batches every chunk of a rank keeps alive at once, at least: one, one for each
// stage from its own to the last, or all.
enum class LiveMicrobatches : uint8_t { One, StagesLeft, All };

// Properties of every schedule of a kind, whatever its shape.
struct ScheduleTraits {
  ChunkRule chunks = ChunkRule::One;
  StagePlacement placement = StagePlacement::Loop;
  bool merges_backward = false;  // B and W are one action: the previous stage waits for both
  bool is_serial = false;        // one micro-batch at a time: ranks wait for each other
  LiveMicrobatches live = LiveMicrobatches::One;

  // Number of ranks that hold each stage's parameters.
  int param_copies() const { return placement == StagePlacement::Bidir ? 2 : 1; }
};

// `kind` must be one of schedule_kinds().
const ScheduleTraits& traits_of(std::string_view kind);

// The number that ScheduleTraits::live stands for.
int least_live(std::string_view kind, const ScheduleShape& shape, int rank);

// Chunks per rank if none are configured: 1, or 2 if the kind needs them.
int default_chunks(std::string_view kind);

// Usage error: a misspelt kind, or numbers that no schedule of the kind accepts (chunks).
// Infeasible: the kind has no schedule for this shape. The message has the rule, the numbers and
// the nearest valid choices.
Result<Schedule> make_schedule(std::string_view kind, const ScheduleShape& shape);

}  // namespace trireme
