#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "planner/layout_choice.h"
#include "predict/predict.h"
#include "spec/hardware.h"

namespace trireme {

struct PricedLayout {
  LayoutChoice layout;
  int64_t num_microbatches = 0;
  StepTimes time;  // of the rank that everybody waits for
  double mfu = 0.0;
  int64_t peak_bytes = 0;  // of the rank that needs most
};

// A reason why layouts cannot be, with one of them.
struct RefusedLayouts {
  std::string rule;  // "parallel.tp", "memory"
  int64_t count = 0;
  LayoutChoice example;
  std::string message;  // why that one
};

struct LayoutSearch {
  std::vector<PricedLayout> best;  // fastest first, then least memory
  std::vector<RefusedLayouts> refused;
  int64_t global_sequences = 0;
  int64_t num_layouts = 0;    // all that there are
  int64_t num_simulated = 0;  // those that bounds did not rule out before
};

// The `num_best` fastest layouts of `num_ranks` ranks for this model and batch that fit, exactly: a
// layout is left out only where a lower bound of its step is above what has been found, or one of
// its memory above what is available. Not varied: parallel.sequence, context, hsdp_shard and
// everything else of the configuration; the schedule "auto" is not among the candidates.
// Infeasible: no layout fits.
Result<LayoutSearch> search_layout(const RunConfig& config, const HostFacts& host,
                                   const Hardware& hardware, int num_ranks, int num_best);

}  // namespace trireme
