#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "serving/choose_models.h"

namespace trireme {

struct ServingTrial {
  uint64_t seed = 1;
  int64_t requests = 20'000;  // of all sources together
  double most_items = 1e6;    // of all operators; fewer requests are simulated if they become more
  double warm_up = 0.2;       // share of the time of arrivals that is not measured
};

// Workers of one kind that serve one operator.
struct ServedPool {
  int op = 0;
  int kind = 0;
  int64_t workers = 0;
  double busy = 0.0;       // share of the time, mean of the workers
  double predicted = 0.0;  // the same, of the plan
};

struct ServedLink {
  int tier = 0;  // from it to the next one
  double busy = 0.0;
  double predicted = 0.0;
};

// How requests fare in their queues before workers and links. A request is an item of a source with
// everything that becomes of it. It is finished when nothing of it is left to do.
struct ServingTrialResult {
  int64_t requests = 0;  // 0: not simulated, because even a hundred of them are too many items
  double seconds = 0.0;  // measured
  double requests_per_s = 0.0;  // promised, of all sources; joined sources count once
  double finished_per_s = 0.0;  // while requests arrive
  double held_share = 0.0;      // requests that finish / requests that arrive, in the measured time
  int64_t waiting = 0;          // requests that are unfinished when the last one has arrived
  double mean_s = 0.0, p50_s = 0.0, p95_s = 0.0, p99_s = 0.0;  // latencies
  std::vector<ServedPool> pools;
  std::vector<ServedLink> links;
};

// Simulates the plan event by event. Requests arrive at random (a Poisson process for each source).
// A worker needs the same time for every item, and a language model serves a batch of items side by
// side. Queues are first come, first served. The same seed gives the same result.
ServingTrialResult simulate_serving(const ServedPipeline& pipeline, const Tiers& tiers,
                                    const ServingPlan& plan, const ServingTrial& trial = {});

}  // namespace trireme
