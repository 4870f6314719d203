#pragma once

#include <optional>

#include "serving/choose_models.h"
#include "serving/simulate_serving.h"

namespace trireme {

// A plan and the trial that has measured its latencies.
struct TimedPlan {
  ServingPlan plan;
  ServingTrialResult trial;
  double share = 0.0;  // the limits times this are the shortest that the search accepts for it
};

struct LatencySearchLimits {
  int64_t choices = 64;  // combinations of models, those with the lowest bounds of cost
  // Candidates that are placed: an equal part for each utilization, and then the cheapest others.
  int64_t deployments = 200;
  double work = 2e10;                 // of bounds and integer programs (SearchBudget)
  ServingTrial trial = {};            // with which latencies are measured
  int64_t screened_requests = 2'000;  // of a shorter trial, which comes first
};

struct LatencyAnswer {
  std::optional<TimedPlan> cheapest;  // that keeps the limits
  // If there is none, the plan that comes nearest to them.
  std::optional<TimedPlan> nearest;
  int64_t candidates = 0;  // plans whose latency was simulated
};

// Finds the cheapest plan that reaches the accuracy and keeps the limits of latency of the
// pipeline. The candidates are, for every combination of models, the cheapest deployments on all
// workers, on those of some tiers, and on those that are not much slower than the fastest ones,
// each with several limits of utilization: with fewer busy workers, queues are shorter. The
// candidates do not depend on the limits, so a tighter limit never makes the answer cheaper.
LatencyAnswer limit_latency(const ServedPipeline& pipeline, const Tiers& tiers, double target,
                            const LatencySearchLimits& limits = {});

// The latencies of requests that meet no other one.
ServingTrialResult undisturbed_trial(const ServedPipeline& pipeline, const Tiers& tiers,
                                     const ServingPlan& plan);

}  // namespace trireme
