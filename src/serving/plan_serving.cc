#include "serving/plan_serving.h"

namespace trireme {

std::optional<double> ServingAnswer::cost_on(size_t tier) const {
  const ServingPlan* single = single_tiers[tier].cheapest(target);
  if (single == nullptr) return std::nullopt;
  return single->deployment.cost_per_hour();
}

int ServingAnswer::best_single_tier() const {
  int best = -1;
  for (size_t tier = 0; tier < single_tiers.size(); ++tier) {
    const std::optional<double> cost = cost_on(tier);
    if (cost && (best < 0 || *cost < *cost_on(size_t(best)))) best = int(tier);
  }
  return best;
}

double ServingAnswer::saved_of(double cost_per_hour) const {
  return cost_per_hour > 0.0 ? 1.0 - plan.deployment.cost_per_hour() / cost_per_hour : 0.0;
}

Result<ServingAnswer> plan_serving(const ServedPipeline& pipeline, const Tiers& tiers,
                                   double target, const ModelSearchLimits& limits) {
  ServingAnswer answer{.target = target, .curve = cost_curve(pipeline, tiers, 0.0, limits)};
  for (size_t tier = 0; tier < tiers.tiers.size(); ++tier) {
    answer.single_tiers.push_back(cost_curve(pipeline, only_tier(tiers, tier), 0.0, limits));
    // A search that is not exact may have missed such a plan.
    if (!answer.curve.is_exact) join_curve(answer.curve, answer.single_tiers.back());
  }
  const ServingPlan* cheapest = answer.curve.cheapest(target);
  if (cheapest == nullptr) return refuse_serving(pipeline, tiers, target, answer.curve);
  answer.plan = *cheapest;
  return answer;
}

}  // namespace trireme
