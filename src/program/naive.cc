#include "program/generators.h"

namespace trireme {

// One micro-batch at a time goes through all stages; nothing overlaps.
Schedule make_naive(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule("naive", shape);
  for (Program& program : schedule.programs) {
    for (int k = 0; k < shape.num_microbatches; ++k) {
      program.push_back(forward(0, k));
      program.push_back(backward(0, k));
    }
  }
  return schedule;
}

}  // namespace trireme
