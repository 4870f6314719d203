#pragma once

#include <string>

#include "base/result.h"
#include "compile/run_plan.h"

namespace trireme {

// Why a compiled plan that needs more than `limit` cannot be: the tensor and the moment of its
// peak, and the cheapest change of `host`'s run that fits, found by plans of each.
Error memory_refusal(const RunPlan& plan, int64_t limit, const HostFacts& host);

// The memory.offload that takes the least out of memory and makes `config` fit `host`, proved by a
// plan: "--set memory.offload=optimizer (needs 1.2 GiB)"; "" where none does.
std::string offload_that_fits(const RunConfig& config, const HostFacts& host);

}  // namespace trireme
