#include "sim/simulate_overlap.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "program/accumulate.h"

namespace trireme {
namespace {

DataParallelShape shape_of(int zero_level, int units, int prefetch) {
  DataParallelShape shape{.zero_level = zero_level, .num_unit_slots = prefetch + 1};
  shape.num_units = {units};
  shape.num_pieces = {0};
  shape.kept_gathered = {std::vector<bool>(size_t(units), false)};
  shape.w_reads_params = {std::vector<bool>(size_t(units), true)};
  std::vector<UnitGroup> groups;
  for (int unit = 0; unit < units; ++unit) groups.push_back({unit, 1});
  shape.groups = {groups};
  return shape;
}

Program program_of(const DataParallelShape& shape, int microbatches) {
  Program program;
  for (int k = 0; k < microbatches; ++k) {
    program.push_back({.kind = ActionKind::F, .microbatch = k});
    program.push_back({.kind = ActionKind::BW, .microbatch = k, .accumulate = k > 0});
  }
  program = add_reduce_grad(program, shape);
  append_step(program);
  return add_unshard(program, shape);
}

// A unit takes 1 in F and 2 in BW. A collective takes `each` per unit and `latency` once.
OverlapCosts costs_of(const DataParallelShape& shape, double each, double latency) {
  const int units = shape.num_units[0];
  const auto count = [units](const Action& action) {
    return double(action.num_units == 0 ? units : action.num_units);
  };
  return {[count](const Action& action) {
            if (action.kind == ActionKind::F) return count(action);
            return action.kind == ActionKind::BW ? 2 * count(action) : 0.0;
          },
          [=](const Action& action) { return each * count(action) + latency; }};
}

Overlap overlap_of(const DataParallelShape& shape, int microbatches, double each, double latency) {
  const Program program = program_of(shape, microbatches);
  return simulate_overlap(program, shape, costs_of(shape, each, latency));
}

TEST(Overlap, IsBoundedByComputeAndLink) {
  for (const int level : {0, 1, 2, 3}) {
    for (const int prefetch : {0, 1, 2, 5}) {
      for (const int microbatches : {1, 2, 3}) {
        for (const double each : {0.0, 0.1, 0.7, 5.0}) {
          const Overlap run = overlap_of(shape_of(level, 6, prefetch), microbatches, each, 0.01);
          EXPECT_NEAR(run.compute_s, 18.0 * microbatches, 1e-9);
          EXPECT_NEAR(run.makespan_s, run.compute_s + run.exposed_s, 1e-9);
          EXPECT_GE(run.makespan_s + 1e-9, std::max(run.compute_s, run.link_s));
          EXPECT_LE(run.makespan_s, run.compute_s + run.link_s + 1e-9);
        }
      }
    }
  }
}

// One micro-batch goes forward and back once, so gathering a unit never needs another's slot too
// early.
TEST(Overlap, MorePrefetchNeverExposesMoreOfOneMicrobatch) {
  for (const double each : {0.1, 0.9, 1.0, 1.7, 4.0}) {
    double last = 1e9;
    for (int prefetch = 0; prefetch <= 8; ++prefetch) {
      const double exposed = overlap_of(shape_of(3, 6, prefetch), 1, each, 0.0).exposed_s;
      EXPECT_LE(exposed, last + 1e-9) << prefetch << " at " << each;
      last = exposed;
    }
  }
}

// With several micro-batches slots may collide where one ends and the next begins, and gathers
// delay reductions on the link. But any prefetch is at least as good as none.
TEST(Overlap, AnyPrefetchExposesLessThanNone) {
  for (const double each : {0.1, 0.9, 1.7}) {
    const double none = overlap_of(shape_of(3, 6, 0), 4, each, 0.0).exposed_s;
    for (const int prefetch : {1, 2, 3, 4, 5}) {
      EXPECT_LT(overlap_of(shape_of(3, 6, prefetch), 4, each, 0.0).exposed_s, none) << prefetch;
    }
  }
}

// At levels 0 and 1 only the reduction of the last bucket is exposed while the link keeps up. A
// larger bucket pays the latency less often and leaves more for the end.
TEST(Overlap, LargerBucketsPayLessLatencyAndExposeALongerEnd) {
  const auto run = [](int units_of_a_bucket, double each, double latency) {
    DataParallelShape shape = shape_of(0, 6, 1);
    shape.groups[0].clear();
    for (int unit = 0; unit < 6; unit += units_of_a_bucket) {
      shape.groups[0].push_back({unit, units_of_a_bucket});
    }
    return overlap_of(shape, 2, each, latency);
  };
  for (const int units : {1, 2, 3, 6}) {
    EXPECT_NEAR(run(units, 1.0, 0.0).exposed_s, 1.0 * units, 1e-9);
    EXPECT_NEAR(run(units, 0.0, 1.0).link_s, 6.0 / units, 1e-9);
  }
  EXPECT_GT(run(1, 0.1, 10.0).makespan_s, run(6, 0.1, 10.0).makespan_s);
}

// While both run, compute has the share that the transfer leaves; the compute that is done does not
// change.
TEST(Slowdown, TakesItsShareFromComputeWhileBothRun) {
  for (const double compute_s : {0.0, 0.3, 1.0, 7.0}) {
    for (const double transfer_s : {0.0, 0.2, 1.0, 9.0}) {
      for (const double share : {0.0, 0.1, 0.5, 0.9}) {
        const double end_s = compute_s + slowdown_s(compute_s, transfer_s, share);
        const double both_s = std::min(end_s, transfer_s);
        EXPECT_NEAR((1.0 - share) * both_s + (end_s - both_s), compute_s, 1e-9);
      }
    }
  }
}

// A collective that takes more of the compute is never hidden better, and none is worse than
// computing first and sending afterwards.
TEST(Overlap, CollectivesThatSlowComputeCostMoreButNotMoreThanAlone) {
  for (const int level : {0, 1, 2, 3}) {
    for (const double each : {0.0, 0.1, 0.7, 5.0}) {
      const DataParallelShape shape = shape_of(level, 6, 2);
      const Program program = program_of(shape, 2);
      double least_s = 0.0;
      for (const double share : {0.0, 0.2, 0.6}) {
        OverlapCosts costs = costs_of(shape, each, 0.01);
        costs.taken_share = share;
        const Overlap run = simulate_overlap(program, shape, costs);
        EXPECT_GE(run.makespan_s, least_s);
        EXPECT_NEAR(run.makespan_s, run.compute_s + run.exposed_s, 1e-9);
        EXPECT_LE(run.makespan_s, run.compute_s + run.link_s + 1e-9);
        least_s = run.makespan_s;
      }
    }
  }
}

}  // namespace
}  // namespace trireme
