#include "sim/simulate_offload.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "program/accumulate.h"
#include "program/offload.h"

namespace trireme {
namespace {

Program step_of(int pieces) {
  Program program = {{.kind = ActionKind::F}, {.kind = ActionKind::BW}};
  append_step(program);
  return add_offload(program, {pieces});
}

// F and BW take `compute` together, the update of a piece takes `update`, a read or a write `file`.
OffloadTimes times_of(int pieces, double compute, double update, double file, double shared = 0.0) {
  const auto compute_s = [=](const Action& action) {
    if (action.kind == ActionKind::StepPiece) return update;
    const bool computes = action.kind == ActionKind::F || action.kind == ActionKind::BW;
    return computes ? 0.5 * compute : 0.0;
  };
  return simulate_offload(step_of(pieces),
                          {compute_s, [=](const Action&) { return file; }, shared});
}

TEST(SimulateOffload, AStepIsComputeAndWaitingAndNeverShorterThanTheFile) {
  for (const int pieces : {1, 2, 3, 7}) {
    for (const double compute : {0.0, 5.0, 100.0}) {
      for (const double update : {0.0, 1.0, 3.0}) {
        for (const double file : {0.0, 0.5, 1.0, 4.0}) {
          for (const double shared : {0.0, 0.25, 0.5}) {
            const OffloadTimes times = times_of(pieces, compute, update, file, shared);
            const double work = compute + pieces * update;
            EXPECT_NEAR(times.makespan_s, work + times.added_s(), 1e-9);
            EXPECT_DOUBLE_EQ(times.file_s, 2.0 * pieces * file);
            EXPECT_GE(times.makespan_s, std::max(work, times.file_s) - 1e-9);
            EXPECT_LE(times.waited_s, times.file_s + 1e-9);
          }
        }
      }
    }
  }
}

TEST(SimulateOffload, ASlowerFileNeverMakesAStepFaster) {
  for (const int pieces : {1, 4}) {
    double before = 0.0;
    for (double file = 0.0; file < 4.0; file += 0.25) {
      const double step = times_of(pieces, 6.0, 1.0, file).makespan_s;
      EXPECT_GE(step, before);
      before = step;
    }
  }
}

// Where compute and file halve each other's speed, nothing is gained by overlapping them: a step
// takes as long as both, one after the other. Where they lose less, something is.
TEST(SimulateOffload, WhatSharesTheCoresIsNotHidden) {
  const int pieces = 5;
  const double update = 3.0, file = 1.0, both = pieces * (update + 2.0 * file);
  double before = 0.0;
  for (const double shared : {0.0, 0.1, 0.3, 0.5}) {
    const double step = times_of(pieces, 0.0, update, file, shared).makespan_s;
    EXPECT_GT(step, before);
    before = step;
  }
  EXPECT_NEAR(before, both, 1e-9);
}

// The rank waits for the first piece, and for the last one to be written.
TEST(SimulateOffload, ReadsHideBehindUpdatesThatAreLonger) {
  const double update = 3.0, file = 1.0;
  const OffloadTimes times = times_of(6, 50.0, update, file);
  EXPECT_LE(times.waited_s, 3.0 * file + 1e-12);
}

}  // namespace
}  // namespace trireme
