#include "serving/choose_models.h"

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

constexpr double kLeastShareOfWork = 1.0 / 256.0;  // for one combination

// A combination with its accuracy and the least that placing it costs.
struct BoundedChoice {
  ModelChoice choice;
  double accuracy = 0.0;
  double bound = 0.0;
};

// Leaves out combinations that cannot be placed.
std::vector<BoundedChoice> with_bounds(const ServedPipeline& pipeline, const Tiers& tiers,
                                       const std::vector<ModelChoice>& choices) {
  std::vector<BoundedChoice> bounded;
  for (const ModelChoice& choice : choices) {
    const auto bound = deployment_bound(deployment_problem(pipeline, tiers, choice));
    if (bound) bounded.push_back({choice, pipeline.accuracy_of(choice), *bound});
  }
  std::stable_sort(bounded.begin(), bounded.end(), [](const auto& a, const auto& b) {
    return std::pair(-a.accuracy, a.bound) < std::pair(-b.accuracy, b.bound);
  });
  return bounded;
}

// Begins with the most accurate combination. So the cheapest plan so far is the cheapest of all
// that are at least as accurate.
void add_cheapest(const ServedPipeline& pipeline, const Tiers& tiers,
                  const std::vector<BoundedChoice>& choices, double work, CostCurve& curve) {
  SearchBudget budget{.left = work, .least = kLeastShareOfWork * work};
  for (const BoundedChoice& one : choices) {
    const double least =
        curve.plans.empty() ? kUnlimited : curve.plans.back().deployment.cost_per_hour();
    if (one.bound >= least) continue;
    ++curve.placed;
    auto deployment = deploy_work(deployment_problem(pipeline, tiers, one.choice), budget, least);
    if (!deployment || deployment->cost_per_hour() >= least) continue;
    const bool replaces =
        !curve.plans.empty() && one.accuracy >= curve.plans.back().accuracy - kAccuracyTolerance;
    if (replaces) curve.plans.pop_back();
    curve.plans.push_back({one.choice, one.accuracy, std::move(*deployment)});
  }
  curve.is_exact = curve.is_exact && budget.was_enough;
}

CostCurve curve_by_beams(const ServedPipeline& pipeline, const Tiers& tiers, double least_accuracy,
                         const ModelSearchLimits& limits) {
  CostCurve curve{.is_exact = false};
  const double most = pipeline.most_accuracy(ModelChoice(pipeline.operators.size(), -1));
  std::vector<ModelChoice> kept;
  for (int i = 0; i < limits.beam_targets; ++i) {
    const double share = double(i) / std::max(limits.beam_targets - 1, 1);
    const double target = least_accuracy + share * (most - least_accuracy);
    for (ModelChoice& choice : beam_search(pipeline, tiers, target, limits.beam_width)) {
      if (std::find(kept.begin(), kept.end(), choice) == kept.end()) {
        kept.push_back(std::move(choice));
      }
    }
  }
  curve.combinations = int64_t(kept.size());
  add_cheapest(pipeline, tiers, with_bounds(pipeline, tiers, kept), limits.work, curve);
  return curve;
}

}  // namespace

const ServingPlan* CostCurve::cheapest(double target) const {
  const ServingPlan* found = nullptr;
  for (const ServingPlan& plan : plans) {
    if (plan.accuracy >= target - kAccuracyTolerance) found = &plan;
  }
  return found;
}

std::vector<ModelChoice> all_choices(const ServedPipeline& pipeline, double target, int64_t limit) {
  std::vector<ModelChoice> choices;
  if (pipeline.num_combinations() > limit) return choices;
  ModelChoice choice(pipeline.operators.size(), 0);
  while (true) {
    const double accuracy = pipeline.accuracy_of(choice);
    if (accuracy >= 0.0 && accuracy >= target - kAccuracyTolerance) choices.push_back(choice);
    size_t op = 0;
    while (op < choice.size() && ++choice[op] == int(pipeline.operators[op].models.size())) {
      choice[op++] = 0;
    }
    if (op == choice.size()) return choices;
  }
}

CostCurve cost_curve(const ServedPipeline& pipeline, const Tiers& tiers, double least_accuracy,
                     const ModelSearchLimits& limits) {
  if (pipeline.num_combinations() > limits.exact_combinations) {
    return curve_by_beams(pipeline, tiers, least_accuracy, limits);
  }
  CostCurve curve;
  const std::vector<ModelChoice> choices =
      all_choices(pipeline, least_accuracy, limits.exact_combinations);
  curve.combinations = int64_t(choices.size());
  add_cheapest(pipeline, tiers, with_bounds(pipeline, tiers, choices), limits.work, curve);
  return curve;
}

void join_curve(CostCurve& curve, const CostCurve& other) {
  std::vector<ServingPlan> all = std::move(curve.plans);
  all.insert(all.end(), other.plans.begin(), other.plans.end());
  std::stable_sort(all.begin(), all.end(), [](const ServingPlan& a, const ServingPlan& b) {
    return std::pair(-a.accuracy, a.deployment.cost_per_hour()) <
           std::pair(-b.accuracy, b.deployment.cost_per_hour());
  });
  curve.plans.clear();
  for (ServingPlan& plan : all) {
    const bool is_cheaper =
        curve.plans.empty() ||
        plan.deployment.cost_per_hour() < curve.plans.back().deployment.cost_per_hour();
    if (is_cheaper) curve.plans.push_back(std::move(plan));
  }
}

Tiers only_tier(const Tiers& tiers, size_t tier) {
  Tiers only = tiers;
  for (WorkerKind& kind : only.kinds) {
    if (kind.tier != int(tier)) kind.workers = 0;
  }
  return only;
}

std::vector<ModelChoice> beam_search(const ServedPipeline& pipeline, const Tiers& tiers,
                                     double target, int width) {
  struct Partial {
    ModelChoice choice;
    double estimate = 0.0;  // price per hour of the operators that have a model
  };
  const std::vector<double> rates = pipeline.rates();
  std::vector<Partial> beam = {{ModelChoice(pipeline.operators.size(), -1), 0.0}};
  for (size_t op = pipeline.operators.size(); op-- > 0;) {
    std::vector<Partial> extended;
    const std::vector<ServedModel>& models = pipeline.operators[op].models;
    for (size_t model = 0; model < models.size(); ++model) {
      double least = kUnlimited;
      for (const WorkerKind& kind : tiers.kinds) {
        const auto speed = models[model].speeds.find(kind.name);
        const bool fits = models[model].memory_bytes <= kind.memory_bytes && kind.workers > 0;
        if (!fits || speed == models[model].speeds.end() || speed->second <= 0.0) continue;
        least = std::min(least, kind.price_per_hour * rates[op] / speed->second);
      }
      if (least == kUnlimited) continue;
      for (const Partial& partial : beam) {
        Partial next = partial;
        next.choice[op] = int(model);
        next.estimate += least;
        const double reachable = pipeline.most_accuracy(next.choice);
        if (reachable < 0.0 || reachable < target - kAccuracyTolerance) continue;
        extended.push_back(std::move(next));
      }
    }
    std::stable_sort(extended.begin(), extended.end(),
                     [](const Partial& a, const Partial& b) { return a.estimate < b.estimate; });
    if (extended.size() > size_t(width)) extended.resize(size_t(width));
    beam = std::move(extended);
  }
  std::vector<ModelChoice> choices;
  for (Partial& partial : beam) choices.push_back(std::move(partial.choice));
  return choices;
}

}  // namespace trireme
