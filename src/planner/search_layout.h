#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "planner/layout_choice.h"
#include "planner/layout_space.h"
#include "predict/predict.h"
#include "schema/hardware.h"

namespace trireme {

struct PricedLayout {
  LayoutChoice layout;
  int64_t num_microbatches = 0;
  StepTimes time;  // of the slowest rank
  double mfu = 0.0;
  int64_t peak_bytes = 0;   // of the rank that needs the most
  int64_t arena_bytes = 0;  // of the rank that needs the most
};

// A rule that refuses layouts, with one example.
struct RefusedLayouts {
  std::string rule;  // such as "parallel.tp" or "memory"
  int64_t count = 0;
  LayoutChoice example;
  std::string message;  // why the example is refused
};

struct LayoutSearch {
  std::vector<PricedLayout> best;  // sorted by time, then by memory
  std::vector<RefusedLayouts> refused;
  int64_t global_sequences = 0;
  int64_t num_layouts = 0;    // every layout, feasible or not
  int64_t num_simulated = 0;  // layouts that the lower bounds did not rule out
};

// Finds the `num_best` fastest layouts of a space that fit, for this model and batch, each in its
// fastest way. The search is exact: it leaves out a layout only if a lower bound of its step time
// is above the times found so far, or a lower bound of its memory is above what is available. It
// takes for granted that a larger choice of memory.offload never makes a step shorter. It keeps
// every key that LayoutChoice does not have, and does not try the schedule "auto". Infeasible if no
// layout fits.
Result<LayoutSearch> search_layout(const RunConfig& config, const HostFacts& host,
                                   const Hardware& hardware, const LayoutSpace& space,
                                   int num_best);
// Searches all layouts of `num_ranks` ranks. The order of the axes is exact up to
// kMostRanksInEveryOrder.
Result<LayoutSearch> search_layout(const RunConfig& config, const HostFacts& host,
                                   const Hardware& hardware, int num_ranks, int num_best);

// A layout of the front may need so much more memory than one that is as slow and left out.
inline constexpr double kFrontStep = 0.02;
// No layout of the front is slower than the fastest by more than this factor.
inline constexpr double kFrontSlowest = 2.0;

// Finds the layouts that nothing beats in both step time and memory of the rank that needs the
// most, within these two constants: for every layout that fits and is at most kFrontSlowest times
// as slow as the fastest, `best` has one that is at most as slow and needs at most (1 + kFrontStep)
// times its memory. Sorted by time.
Result<LayoutSearch> search_front(const RunConfig& config, const HostFacts& host,
                                  const Hardware& hardware, const LayoutSpace& space);

}  // namespace trireme
