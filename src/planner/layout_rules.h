#pragma once

#include <string>
#include <vector>

#include "planner/search_layout.h"

namespace trireme {

// One step of the textbook: what it decides, and why, with the numbers of this run.
struct RuleStep {
  std::string rule;    // "tp", "pp or ZeRO-3", "dp", "accumulate" and so on
  std::string choice;  // "tp 8"
  std::string reason;
};

// Whether the devices or their links limit data parallelism. A device computes 2 FLOPs for every
// active parameter and token, and receives every parameter, so its links keep up if it has at least
// peak / bandwidth tokens (times half the bytes of a parameter, times parameters / active ones).
struct TokenRegime {
  double tokens_per_device = 0.0;  // of one step
  double inside_node = 0.0;        // peak / bandwidth inside a node; 0: unknown
  double across_nodes = 0.0;       // peak / bandwidth out of a device, over all ranks; 0: unknown

  bool is_compute_bound() const { return tokens_per_device >= across_nodes; }
};

struct RuledLayout {
  std::vector<RuleStep> steps;
  TokenRegime regime;
  PricedLayout priced;
  int64_t global_sequences = 0;
};

// `plan` has been started (start_plan) for any number of ranks.
TokenRegime token_regime(const RunPlan& plan, const Hardware& hardware, int num_ranks);

// Chooses a layout without searching: fill a node with tp, with sequence parallelism where the
// model allows it, until the model fits; then pp across nodes or ZeRO-3, whichever the links allow;
// dp with the rest; accumulate what does not fit at once. It keeps the same keys as search_layout.
// Infeasible if no layout of the rules fits.
Result<RuledLayout> layout_by_rules(const RunConfig& config, const HostFacts& host,
                                    const Hardware& hardware, int num_ranks);

}  // namespace trireme
