#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "predict/what_if.h"

namespace trireme {

// The options of `trireme plan` that disturb the predicted step.
struct WhatIfOptions {
  std::vector<std::string> slow_ranks;  // "R=FACTOR"
  std::vector<std::string> slow_links;  // "TIER=SHARE"
  std::optional<double> jitter;         // sigma
  std::optional<int64_t> seed;

  bool empty() const { return slow_ranks.empty() && slow_links.empty() && !jitter && !seed; }
};

std::vector<Option> what_if_options(WhatIfOptions& options);

// Usage error if a text is not of this form, or --seed has no --jitter. Ranks, tiers and ranges are
// checked by what_if.
Result<Disturbances> disturbances_of(const WhatIfOptions& options);

std::string what_if_text(const WhatIf& what_if);

}  // namespace trireme
