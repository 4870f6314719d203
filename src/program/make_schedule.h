#pragma once

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

// Chunks per rank where nobody says: 1, or 2 where the kind needs or means them.
int default_chunks(std::string_view kind);

// Usage: a misspelt kind, or numbers that no schedule of the kind takes (chunks). Infeasible: a
// shape for which the kind has no schedule. The message has the rule, the numbers and the nearest
// choices.
Result<Schedule> make_schedule(std::string_view kind, const ScheduleShape& shape);

}  // namespace trireme
