#pragma once

#include <cstdint>
#include <span>

#include "collectives/collective.h"
#include "collectives/plan.h"

namespace trireme {

// The alpha-beta-gamma model of one kind of link: a message of n bytes takes alpha + n beta, adding
// n received bytes takes n gamma.
struct LinkCost {
  double alpha_s = 1e-6;
  double beta_s_per_byte = 1.0 / 8e9;
};

struct CommCost {
  LinkCost inside;                      // ranks of one node
  LinkCost across{20e-6, 1.0 / 1.2e9};  // ranks of different nodes
  double gamma_s_per_byte = 1.0 / 16e9;
};

// Seconds of a collective under the model: rounds cost alpha each on the slowest link they use,
// bytes and additions as the busiest rank has them. Pure and the same on every rank.
double predict_seconds(const PlanRequest& request, int64_t element_bytes, const CommCost& cost);

// The cheapest message algorithm, among all or among the canonical ones (tree, doubling,
// halving_doubling).
Algorithm choose_algorithm(const PlanRequest& request, int64_t element_bytes, const CommCost& cost,
                           bool canonical);

}  // namespace trireme
