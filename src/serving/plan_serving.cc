#include "serving/plan_serving.h"

namespace trireme {
namespace {

std::optional<double> cost_of(const ServingPlan* plan) {
  if (plan == nullptr) return std::nullopt;
  return plan->deployment.cost_per_hour();
}

// Only so many deployments are tried, which may have left out one of a single tier.
void take_cheaper(LatencyAnswer& answer, const LatencyAnswer& other) {
  answer.candidates += other.candidates;
  if (!other.cheapest) return;
  const auto cost = [](const LatencyAnswer& of) {
    return of.cheapest->plan.deployment.cost_per_hour();
  };
  if (!answer.cheapest || cost(other) < cost(answer)) answer.cheapest = other.cheapest;
}

}  // namespace

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
  const ServingPlan* whatever_latency = answer.curve.cheapest(target);
  if (whatever_latency == nullptr) return refuse_serving(pipeline, tiers, target, answer.curve);
  const bool is_limited = pipeline.latency.are_stated();
  LatencyAnswer limited;
  if (is_limited) limited = limit_latency(pipeline, tiers, target);
  for (size_t tier = 0; tier < tiers.tiers.size(); ++tier) {
    const ServingPlan* cheapest = answer.single_tiers[tier].cheapest(target);
    LatencyAnswer of_tier;
    if (is_limited && cheapest != nullptr) {
      of_tier = limit_latency(pipeline, only_tier(tiers, tier), target);
      take_cheaper(limited, of_tier);
      cheapest = of_tier.cheapest ? &of_tier.cheapest->plan : nullptr;
    }
    answer.single_costs.push_back(cost_of(cheapest));
  }
  if (is_limited && !limited.cheapest) return refuse_latency(pipeline, tiers, target, limited);
  answer.plan = is_limited ? limited.cheapest->plan : *whatever_latency;
  answer.simulated_plans = limited.candidates;
  return answer;
}

}  // namespace trireme
