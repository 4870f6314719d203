#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/configuration.h"

namespace trireme::api {

struct PlanRequest {
  std::string cluster_file;  // a hardware file; "": this machine, whose arithmetic is measured
};

// What a run would be, known without running it.
struct Plan {
  std::int64_t num_params = 0;
  double flops_per_token = 0.0;  // of a training step, causal attention
  std::int64_t tokens_per_step = 0;
  int num_ranks = 1;
  std::vector<std::int64_t> peak_bytes;  // of each rank, to the byte
  double step_s = 0.0;                   // predicted
  std::string json;                      // plan.json: everything by rank, class and axis
};

// Throws Failure::Kind::Infeasible where the run does not fit, and says what would.
Plan plan(const Configuration& configuration, const PlanRequest& request = {});

}  // namespace trireme::api
