#include "program/generators.h"

namespace trireme {

// All forwards, then all backwards, oldest first, so that gradients are summed in the order of
// 1f1b.
Schedule make_gpipe(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule("gpipe", shape);
  for (Program& program : schedule.programs) {
    for (int k = 0; k < shape.num_microbatches; ++k) program.push_back(forward(0, k));
    for (int k = 0; k < shape.num_microbatches; ++k) program.push_back(backward(0, k));
  }
  return schedule;
}

}  // namespace trireme
