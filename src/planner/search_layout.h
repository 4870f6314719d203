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
  int64_t peak_bytes = 0;  // of the rank that needs the most
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

// Finds the `num_best` fastest layouts of `num_ranks` ranks that fit, for this model and batch. The
// search is exact: it leaves out a layout only if a lower bound of its step time is above the times
// found so far, or a lower bound of its memory is above what is available. It keeps
// parallel.sequence, context, hsdp_shard and every other key as configured, and does not try the
// schedule "auto". Infeasible if no layout fits.
Result<LayoutSearch> search_layout(const RunConfig& config, const HostFacts& host,
                                   const Hardware& hardware, int num_ranks, int num_best);

}  // namespace trireme
