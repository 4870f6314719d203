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

// Buckets of so many bytes are tried beside those of one layer.
inline constexpr int64_t kSearchedBucketBytes = int64_t{64} << 20;

// Every layout is searched in every order up to so many ranks. Beyond, where the orders would
// double the time, only the meshes of the best layouts in the usual order are.
inline constexpr int kMostRanksInEveryOrder = 8192;

// Which layouts are searched.
struct LayoutSpace {
  std::vector<Mesh> meshes;
  std::vector<int> zero_levels = {0, 1, 2, 3};
  // The ways to run a layout. Each layout takes the fastest of them that fits; if several take the
  // same time, the first one in these lists. The configured buckets and prefetch come first.
  std::vector<MeshOrder> orders = {kUsualOrder};
  std::vector<OffloadChoice> offloads = {};  // rising; empty: the configured one
  std::vector<int64_t> bucket_bytes = {};    // beside the configured one
  std::vector<int> prefetches = {};          // beside the configured one
  // If no layout fits, the error says what the smallest one needs and what would make it fit.
  bool names_remedy = true;
};
// Every layout of `num_ranks` ranks, and every way that can make a difference on this hardware.
LayoutSpace all_layouts(int num_ranks, const RunConfig& config, const Hardware& hardware);

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
