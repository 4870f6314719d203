#pragma once

#include <optional>
#include <vector>

#include "serving/deployment.h"

namespace trireme {

// Models, and where and by how many workers they are served.
struct ServingPlan {
  ModelChoice choice;
  double accuracy = 0.0;
  Deployment deployment;
};

struct ModelSearchLimits {
  // Up to so many combinations of models, every one is considered: the answer is exact. With more,
  // a beam search over the models takes the place of that.
  int64_t exact_combinations = 4096;
  int beam_width = 32;    // partial combinations that are kept
  double work = 2e10;     // for the integer programs (SearchBudget)
  int beam_targets = 12;  // accuracies for which the beam search draws the curve
};

// The cheapest plans by accuracy: each is the cheapest of all with at least its accuracy, the most
// accurate one first. So the last one with `accuracy` >= target is the answer for a target.
struct CostCurve {
  std::vector<ServingPlan> plans;
  bool is_exact = true;      // false: there may be cheaper plans
  int64_t combinations = 0;  // that reach the least accuracy, or that the beam has kept
  int64_t placed = 0;        // for which an integer program was solved

  const ServingPlan* cheapest(double target) const;  // null: no plan has this accuracy
};

// Two accuracies closer than this are the same.
inline constexpr double kAccuracyTolerance = 1e-9;

// The combinations of models whose accuracy reaches the target, by their indices. Empty if there
// are more than the limit.
std::vector<ModelChoice> all_choices(const ServedPipeline& pipeline, double target, int64_t limit);

// Considers all plans that reach `least_accuracy`.
CostCurve cost_curve(const ServedPipeline& pipeline, const Tiers& tiers, double least_accuracy,
                     const ModelSearchLimits& limits = {});

// Takes in the plans of another curve of the same pipeline.
void join_curve(CostCurve& curve, const CostCurve& other);

// The same tiers with only the workers of one of them.
Tiers only_tier(const Tiers& tiers, size_t tier);

// Chooses models operator by operator, from the last one back. Of the partial combinations that can
// still reach the target, it keeps the cheapest ones by the price of an item on the worker kind
// that does it for least.
std::vector<ModelChoice> beam_search(const ServedPipeline& pipeline, const Tiers& tiers,
                                     double target, int width);

}  // namespace trireme
