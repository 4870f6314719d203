#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "serving/choose_models.h"
#include "serving/limit_latency.h"

namespace trireme {

// The cheapest plan for a target, and what it is compared with.
struct ServingAnswer {
  double target = 0.0;
  ServingPlan plan;
  CostCurve curve;                      // of all accuracies, whatever their latency
  std::vector<CostCurve> single_tiers;  // [tier] with the workers of this tier alone
  // [tier] the cost per hour of the target with these workers; nullopt: they cannot do it.
  std::vector<std::optional<double>> single_costs;
  // Plans whose latency was simulated because the pipeline limits it; the plan is one of them.
  int64_t simulated_plans = 0;

  std::optional<double> cost_on(size_t tier) const { return single_costs[tier]; }
  // False: there may be cheaper plans. Limits of latency are never searched exactly.
  bool is_exact() const { return curve.is_exact && simulated_plans == 0; }
  // The tier whose workers alone cost least; -1: none can do it.
  int best_single_tier() const;
  // Share of a cost that the plan saves.
  double saved_of(double cost_per_hour) const;
};

// The plan also keeps the limits of latency of the pipeline, if it has any (limit_latency.h). If no
// plan reaches the target, the error (Infeasible) says which limit that is and the smallest change
// of every limit, alone, that would make one possible.
Result<ServingAnswer> plan_serving(const ServedPipeline& pipeline, const Tiers& tiers,
                                   double target, const ModelSearchLimits& limits = {});

// Why no plan for the target keeps the limits of latency, though there are plans.
Error refuse_latency(const ServedPipeline& pipeline, const Tiers& tiers, double target,
                     const LatencyAnswer& limited);

// Why `curve`, that of all accuracies, has no plan for the target.
Error refuse_serving(const ServedPipeline& pipeline, const Tiers& tiers, double target,
                     const CostCurve& curve);

}  // namespace trireme
