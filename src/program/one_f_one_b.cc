#include <algorithm>

#include "program/generators.h"

namespace trireme {

// PipeDream-flush: rank r runs p - r forwards ahead, then one backward per forward.
Schedule make_1f1b(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule("1f1b", shape);
  const int m = shape.num_microbatches;
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    Program& program = schedule.programs[rank];
    const int warmup = std::min(shape.num_ranks - rank, m);
    for (int k = 0; k < warmup; ++k) program.push_back(forward(0, k));
    for (int k = 0; k < m; ++k) {
      program.push_back(backward(0, k));
      if (warmup + k < m) program.push_back(forward(0, warmup + k));
    }
  }
  return schedule;
}

}  // namespace trireme
