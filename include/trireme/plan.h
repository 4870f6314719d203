#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/configuration.h"

namespace trireme::api {

struct PlanRequest {
  // A hardware file. Empty: this machine, whose arithmetic speed is measured.
  std::string cluster_file;
};

// Predictions for a run, made without running it.
struct Plan {
  std::int64_t num_params = 0;
  double flops_per_token = 0.0;  // FLOPs of a training step per token, with causal attention
  std::int64_t tokens_per_step = 0;
  int num_ranks = 1;
  std::vector<std::int64_t> peak_bytes;  // peak memory of each rank, exact to the byte
  double step_s = 0.0;                   // predicted time of a step
  std::string json;  // the content of plan.json: memory, traffic and time per rank, class and axis
};

// Throws Failure::Kind::Infeasible if the run does not fit. The message names a change that would
// fit.
Plan plan(const Configuration& configuration, const PlanRequest& request = {});

}  // namespace trireme::api
