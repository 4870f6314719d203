#include <algorithm>

#include "program/generators.h"

namespace trireme {
namespace {

// 1F1B with every W delayed by `delay` input gradients, so that W fills the bubble at the end.
void append_delayed(Program& program, int num_microbatches, int warmup, int delay) {
  const int m = num_microbatches;
  warmup = std::min(warmup, m);
  for (int k = 0; k < warmup; ++k) program.push_back(forward(0, k));
  for (int k = 0; k < m; ++k) {
    program.push_back(backward_input(0, k));
    if (k >= delay) program.push_back(backward_weight(0, k - delay));
    if (warmup + k < m) program.push_back(forward(0, warmup + k));
  }
  for (int k = std::max(0, m - delay); k < m; ++k) program.push_back(backward_weight(0, k));
}

}  // namespace

// Uses the memory of 1F1B (p activations, freed at W) and has a third of its bubble if F = B = W.
Schedule make_zb_h1(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule("zb_h1", shape);
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    append_delayed(schedule.programs[rank], shape.num_microbatches, shape.num_ranks - rank, rank);
  }
  return schedule;
}

// Has no bubble between a rank's first and last action if F = B = W and m >= 2p - 1; needs 2p - 1
// activations.
Schedule make_zb_h2(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule("zb_h2", shape);
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    append_delayed(schedule.programs[rank], shape.num_microbatches,
                   2 * (shape.num_ranks - rank) - 1, 2 * rank);
  }
  return schedule;
}

}  // namespace trireme
