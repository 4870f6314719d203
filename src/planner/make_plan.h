#pragma once

#include "compile/run_plan.h"

namespace trireme {

// Usage errors name the key; Infeasible ones name the tensor, the moment and the cheapest change
// that would fit.
Result<RunPlan> make_plan(const RunConfig& config, const HostFacts& host);

// A plan beside the memory that is available to it.
struct SizedPlan {
  RunPlan plan;
  int64_t needed_bytes = 0;     // bytes_to_fit
  int64_t available_bytes = 0;  // 0: unknown

  bool fits() const { return available_bytes == 0 || needed_bytes <= available_bytes; }
};

// Like make_plan, but a plan that needs too much memory is not an error. Staleness is not
// supported.
Result<SizedPlan> make_sized_plan(const RunConfig& config, const HostFacts& host);

}  // namespace trireme
