#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

// `trireme serve-plan` after parsing.
struct ServePlanOptions {
  std::string pipeline;
  std::string tiers;
  std::optional<double> accuracy;                       // by default that of the pipeline
  std::optional<double> mean_latency_s, p95_latency_s;  // likewise
  uint64_t seed = 1;                                    // of the simulation
  bool json = false;
  bool svg = false;
};

// Prints the cheapest plan for serving a pipeline of models on tiers of workers
// (docs/serving_plan.md).
Result<int> run_serve_plan(const ServePlanOptions& options, CommandIo& io);

}  // namespace trireme
