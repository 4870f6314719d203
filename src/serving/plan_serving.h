#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "serving/choose_models.h"

namespace trireme {

// The cheapest plan for a target, and what it is compared with.
struct ServingAnswer {
  double target = 0.0;
  ServingPlan plan;
  CostCurve curve;                      // of all accuracies
  std::vector<CostCurve> single_tiers;  // [tier] with the workers of this tier alone

  // The cost per hour with the workers of one tier alone, or nullopt if these cannot do it.
  std::optional<double> cost_on(size_t tier) const;
  // The tier whose workers alone cost least; -1: none can do it.
  int best_single_tier() const;
  // Share of a cost that the plan saves.
  double saved_of(double cost_per_hour) const;
};

// If no plan reaches the target, the error (Infeasible) says which limit that is and the smallest
// change of every limit, alone, that would make one possible.
Result<ServingAnswer> plan_serving(const ServedPipeline& pipeline, const Tiers& tiers,
                                   double target, const ModelSearchLimits& limits = {});

// Why `curve`, that of all accuracies, has no plan for the target.
Error refuse_serving(const ServedPipeline& pipeline, const Tiers& tiers, double target,
                     const CostCurve& curve);

}  // namespace trireme
