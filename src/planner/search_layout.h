#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "planner/layout_choice.h"
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

// Which layouts are searched.
struct LayoutSpace {
  std::vector<Mesh> meshes;
  std::vector<int> zero_levels = {0, 1, 2, 3};
  // If no layout fits, the error says what the smallest one needs and what would make it fit.
  bool names_remedy = true;
};
LayoutSpace all_layouts(int num_ranks, const RunConfig& config);

// Finds the `num_best` fastest layouts of a space that fit, for this model and batch. The search is
// exact: it leaves out a layout only if a lower bound of its step time is above the times found so
// far, or a lower bound of its memory is above what is available. It keeps memory.offload and every
// other key that LayoutChoice does not have, and does not try the schedule "auto". Infeasible if no
// layout fits.
Result<LayoutSearch> search_layout(const RunConfig& config, const HostFacts& host,
                                   const Hardware& hardware, const LayoutSpace& space,
                                   int num_best);
// Of all layouts of `num_ranks` ranks.
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
                                  const Hardware& hardware, int num_ranks);

}  // namespace trireme
