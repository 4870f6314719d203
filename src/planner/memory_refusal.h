#pragma once

#include <string>

#include "base/result.h"
#include "compile/run_plan.h"

namespace trireme {

// Explains why a compiled plan needs more than `limit`: names the tensor and the moment of its
// peak, and the cheapest change that fits. Every change is proved by a plan.
Error memory_refusal(const RunPlan& plan, int64_t limit, const HostFacts& host);

// Returns the memory.offload that moves the fewest tensors out of memory and makes `config` fit
// `host`, proved by a plan: "--set memory.offload=optimizer (needs 1.2 GiB)". Returns "" if none
// fits.
std::string offload_that_fits(const RunConfig& config, const HostFacts& host);

}  // namespace trireme
