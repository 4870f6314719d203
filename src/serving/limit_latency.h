#pragma once

#include <optional>

#include "serving/choose_models.h"
#include "serving/simulate_serving.h"

namespace trireme {

// A plan and the trial that has measured its latencies.
struct TimedPlan {
  ServingPlan plan;
  ServingTrialResult trial;
};

struct LatencySearchLimits {
  int64_t choices = 64;       // combinations of models, those with the lowest bounds of cost
  int64_t deployments = 200;  // that are placed; the search is not exact beyond
  ServingTrial trial = {};    // with which latencies are measured
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

// The mean latency of a request that meets no other one.
double undisturbed_latency_s(const ServedPipeline& pipeline, const Tiers& tiers,
                             const ServingPlan& plan);

}  // namespace trireme
