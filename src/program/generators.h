#pragma once

#include "program/make_schedule.h"

namespace trireme {

// Pure functions from a shape to the order of F, B and W on every rank. They assume what
// problem_of_shape says of the shape; make_schedule asks it first.
Schedule make_naive(const ScheduleShape& shape);
Schedule make_gpipe(const ScheduleShape& shape);
Schedule make_1f1b(const ScheduleShape& shape);
Schedule make_interleaved(const ScheduleShape& shape);
// The forward passes of a rank before its first backward pass follows one of them.
int interleaved_warmup(const ScheduleShape& shape, int rank);
Schedule make_zb_h1(const ScheduleShape& shape);
Schedule make_zb_h2(const ScheduleShape& shape);
Schedule make_zb_v(const ScheduleShape& shape);
Schedule make_dualpipe(const ScheduleShape& shape);
Schedule make_dualpipev(const ScheduleShape& shape);

// Checks that all counts are at least one and small enough for an Action and for memory. The number
// of chunks must be resolved.
Status check_counts(const ScheduleShape& shape);

// Returns an empty schedule of this kind and shape. The second form sets the placement, which
// "auto" needs.
Schedule empty_schedule(std::string_view kind, const ScheduleShape& shape);
Schedule empty_schedule(std::string kind, const ScheduleShape& shape, StagePlacement placement);

inline Action forward(int chunk, int microbatch) {
  return {ActionKind::F, static_cast<int16_t>(chunk), microbatch};
}
inline Action backward_input(int chunk, int microbatch) {
  return {ActionKind::B, static_cast<int16_t>(chunk), microbatch};
}
inline Action backward_weight(int chunk, int microbatch) {
  return {ActionKind::W, static_cast<int16_t>(chunk), microbatch};
}
inline Action backward(int chunk, int microbatch) {
  return {ActionKind::BW, static_cast<int16_t>(chunk), microbatch};
}

}  // namespace trireme
