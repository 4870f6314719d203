#include "program/make_schedule.h"

#include <algorithm>

namespace trireme {
namespace {

Schedule make_1f1b(const ScheduleShape& shape) {
  Schedule schedule{
      .kind = "1f1b", .num_ranks = shape.num_ranks, .num_microbatches = shape.num_microbatches};
  const int m = shape.num_microbatches;
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    Program program;
    const int warmup = std::min(shape.num_ranks - rank, m);
    for (int k = 0; k < warmup; ++k) program.push_back({.kind = ActionKind::F, .microbatch = k});
    for (int k = 0; k < m; ++k) {
      program.push_back({.kind = ActionKind::BW, .microbatch = k});
      if (warmup + k < m) program.push_back({.kind = ActionKind::F, .microbatch = warmup + k});
    }
    schedule.programs.push_back(program);
  }
  return schedule;
}

}  // namespace

Result<Schedule> make_schedule(std::string_view kind, const ScheduleShape& shape) {
  if (kind != "1f1b") return Error{ErrorKind::Usage, "unknown schedule"};
  return make_1f1b(shape);
}

}  // namespace trireme
