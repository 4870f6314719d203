#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/units.h"
#include "serving/plan_serving.h"

namespace trireme {
namespace {

constexpr double kWorkOfRelaxation = 2e7;  // SearchBudget::least
constexpr size_t kRelaxedChoices = 64;     // combinations of models whose limits are relaxed

// Rounds an accuracy down to four digits, so that --accuracy with the result has a plan.
std::string accuracy_text(double accuracy) {
  return fmt::format("{:g}", std::floor(accuracy * 1e4 + 1e-6) / 1e4);
}

std::string less_accuracy(const CostCurve& curve) {
  if (curve.plans.empty()) return "";
  return fmt::format("\n  --accuracy {}: the most for which there is a plan",
                     accuracy_text(curve.plans.front().accuracy));
}

Error refuse_accuracy(const ServedPipeline& pipeline, double target, double most,
                      const CostCurve& curve) {
  std::string best;
  for (const ModelChoice& choice : all_choices(pipeline, most, kRelaxedChoices * 64)) {
    best = fmt::format(", of {},", pipeline.text_of(choice));
  }
  return infeasible(fmt::format(
      "no models reach the accuracy {:g}: the most that they reach{} is {}. Ask for less, or add "
      "a more accurate model. What would be enough:{}",
      target, best, accuracy_text(most), less_accuracy(curve)));
}

// A model of an operator, and the kind of workers that could run it if it had the memory.
struct MemoryNeed {
  int model = -1;
  int kind = -1;
  double missing_bytes = kUnlimited;
};

// Returns the model that needs the least more memory, or nullopt if one of them has workers.
std::optional<MemoryNeed> memory_need(const ServedPipeline& pipeline, const Tiers& tiers, size_t op,
                                      const std::vector<ModelChoice>& choices) {
  MemoryNeed need;
  for (const ModelChoice& choice : choices) {
    const ServedModel& model = pipeline.operators[op].models[size_t(choice[op])];
    for (size_t k = 0; k < tiers.kinds.size(); ++k) {
      const WorkerKind& kind = tiers.kinds[k];
      const auto speed = model.speeds.find(kind.name);
      if (speed == model.speeds.end() || speed->second <= 0.0 || kind.workers == 0) continue;
      const double missing = model.memory_bytes - kind.memory_bytes;
      if (missing <= 0.0) return std::nullopt;
      if (missing < need.missing_bytes) need = {choice[op], int(k), missing};
    }
  }
  return need;
}

// The smallest relaxation of every limit over all combinations.
Relaxations relax_all(const ServedPipeline& pipeline, const Tiers& tiers,
                      const std::vector<ModelChoice>& choices) {
  Relaxations best;
  best.more_workers.assign(tiers.kinds.size(), kUnlimited);
  best.link_bytes_per_s.assign(tiers.tiers.size() - 1, kUnlimited);
  SearchBudget budget{.left = ModelSearchLimits{}.work, .least = kWorkOfRelaxation};
  for (const ModelChoice& choice : choices) {
    const Relaxations one = relax_deployment(deployment_problem(pipeline, tiers, choice), budget);
    best.rate_share = std::max(best.rate_share, one.rate_share);
    const auto take = [](std::vector<double>& a, const std::vector<double>& b) {
      for (size_t i = 0; i < a.size(); ++i) a[i] = std::min(a[i], b[i]);
    };
    take(best.more_workers, one.more_workers);
    take(best.link_bytes_per_s, one.link_bytes_per_s);
  }
  return best;
}

// Returns the models of an operator that a kind of workers can run, by the memory that they need.
std::map<double, int> models_by_memory(const ServedPipeline& pipeline, const WorkerKind& kind,
                                       size_t op, const std::vector<ModelChoice>& choices) {
  std::map<double, int> models;
  for (const ModelChoice& choice : choices) {
    const ServedModel& model = pipeline.operators[op].models[size_t(choice[op])];
    const auto speed = model.speeds.find(kind.name);
    const bool runs = speed != model.speeds.end() && speed->second > 0.0 && kind.workers > 0;
    if (runs) models.emplace(model.memory_bytes, choice[op]);
  }
  return models;
}

bool has_deployment(const ServedPipeline& pipeline, const Tiers& tiers,
                    const std::vector<ModelChoice>& choices) {
  SearchBudget budget{.left = ModelSearchLimits{}.work, .least = kWorkOfRelaxation};
  return std::any_of(choices.begin(), choices.end(), [&](const ModelChoice& choice) {
    return deploy_work(deployment_problem(pipeline, tiers, choice), budget).has_value();
  });
}

// Names for each kind of workers, in a line of its own, the least memory with which there is a
// plan.
std::string enough_memory(const ServedPipeline& pipeline, const Tiers& tiers, size_t op,
                          const std::vector<ModelChoice>& choices) {
  std::string text;
  for (size_t k = 0; k < tiers.kinds.size(); ++k) {
    const WorkerKind& kind = tiers.kinds[k];
    for (const auto& [bytes, model] : models_by_memory(pipeline, kind, op, choices)) {
      Tiers larger = tiers;
      larger.kinds[k].memory_bytes = std::ceil(bytes);
      if (!has_deployment(pipeline, larger, choices)) continue;
      text += fmt::format("\n  [workers.{}] memory_bytes = {:.0f} instead of {:.0f}, for {}",
                          kind.name, std::ceil(bytes), kind.memory_bytes,
                          pipeline.operators[op].models[size_t(model)].name);
      break;
    }
  }
  return text;
}

Error refuse_memory(const ServedPipeline& pipeline, const Tiers& tiers, size_t op,
                    const MemoryNeed& need, const std::vector<ModelChoice>& choices,
                    const CostCurve& curve) {
  const Operator& one = pipeline.operators[op];
  if (need.kind < 0) {
    return infeasible(fmt::format(
        "no workers for the operator {}: no kind that has workers has a speed for one of its "
        "models with this accuracy. Add a speed for such a model, or workers. What would be "
        "enough:{}",
        one.name, less_accuracy(curve)));
  }
  const ServedModel& model = one.models[size_t(need.model)];
  const WorkerKind& kind = tiers.kinds[size_t(need.kind)];
  const std::string enough = enough_memory(pipeline, tiers, op, choices) + less_accuracy(curve);
  const std::string remedy =
      enough.empty() ? fmt::format(
                           "No single limit is enough. The operator needs at least [workers.{}] "
                           "memory_bytes = {:.0f} instead of {:.0f}, for {}",
                           kind.name, std::ceil(model.memory_bytes), kind.memory_bytes, model.name)
                     : "What would be enough, each alone:" + enough;
  return infeasible(fmt::format("no worker holds a model of the operator {} with this accuracy. {}",
                                one.name, remedy));
}

Error refuse_rate(const ServedPipeline& pipeline, const Tiers& tiers,
                  const std::vector<ModelChoice>& choices, const CostCurve& curve) {
  const Relaxations relaxed = relax_all(pipeline, tiers, choices);
  std::string text;
  for (size_t k = 0; k < tiers.kinds.size(); ++k) {
    const WorkerKind& kind = tiers.kinds[k];
    if (double(kind.workers) + relaxed.more_workers[k] > double(kMostWorkers)) continue;
    text += fmt::format("\n  [workers.{}] workers = {} instead of {}", kind.name,
                        kind.workers + int64_t(relaxed.more_workers[k]), kind.workers);
  }
  bool is_link_enough = false;
  for (size_t tier = 0; tier + 1 < tiers.tiers.size(); ++tier) {
    if (std::isinf(relaxed.link_bytes_per_s[tier])) continue;
    is_link_enough = true;
    text +=
        fmt::format("\n  [tiers.{}] bytes_per_s = {:.6g} instead of {:.6g}", tiers.tiers[tier].name,
                    relaxed.link_bytes_per_s[tier] * (1 + 1e-6), tiers.tiers[tier].bytes_per_s);
  }
  const double utilization = pipeline.utilization / std::max(relaxed.rate_share, 1e-300);
  if (utilization <= 1.0) {
    text += fmt::format("\n  pipeline.utilization = {:.4g} instead of {:g}",
                        std::ceil(utilization * 1e4 - 1e-6) / 1e4, pipeline.utilization);
  }
  text += less_accuracy(curve);
  const std::string rates = relaxed.rate_share > 0.0
                                ? fmt::format("they hold {:.4g} % of the rates of the sources",
                                              std::floor(1e4 * relaxed.rate_share) / 100.0)
                                : std::string("they hold no rate at all");
  return infeasible(
      fmt::format("the {} too few for the rates at this accuracy: {}. {}{}",
                  is_link_enough ? "bytes per second of the links are" : "workers are", rates,
                  text.empty() ? "No single limit is enough; relax several, or lower items_per_s."
                               : "What would be enough, each alone:",
                  text));
}

// The limits with which the trial would be enough, rounded up.
std::string longer_limits(const LatencyLimits& limits, double share) {
  std::string text;
  const auto add = [&](const char* key, double limit_s) {
    if (limit_s <= 0.0) return;
    text += fmt::format("{}{} = {:.4g}", text.empty() ? "\n  " : " and ", key,
                        limit_s * share * 1.001);  // more than four digits lose
  };
  add("pipeline.mean_latency_s", limits.mean_s);
  add("pipeline.p95_latency_s", limits.p95_s);
  return text + ": the shortest that was found";
}

}  // namespace

Error refuse_latency(const ServedPipeline& pipeline, const Tiers& tiers, double target,
                     const LatencyAnswer& limited) {
  const LatencyLimits& limits = pipeline.latency;
  if (limited.candidates == 0) {
    return infeasible(
        "no plan was found whose latency could be simulated: the search for whole numbers of "
        "workers ended without one. Leave out pipeline.mean_latency_s and p95_latency_s, or take "
        "kinds of workers or models out");
  }
  if (!limited.nearest) {
    return infeasible(
        "the limits of latency cannot be checked: even a hundred requests become too many items to "
        "simulate. Leave out pipeline.mean_latency_s and p95_latency_s");
  }
  const TimedPlan& nearest = *limited.nearest;
  const ServingTrialResult alone = undisturbed_trial(pipeline, tiers, nearest.plan);
  const bool queues_bind = limits.share(alone.mean_s, alone.p95_s) <= 1.0;
  std::string text = longer_limits(limits, nearest.share);
  const LatencyAnswer simpler = limit_latency(pipeline, tiers, 0.0);
  if (target > 0.0 && simpler.cheapest) {
    text += fmt::format("\n  --accuracy {}: for which there is a plan of {:.4g} per hour",
                        accuracy_text(simpler.cheapest->plan.accuracy),
                        simpler.cheapest->plan.deployment.cost_per_hour());
  }
  return infeasible(fmt::format(
      "none of the {} plans that were tried keeps the limits of latency at this accuracy: the one "
      "that comes nearest, of {}, has a mean of {} and a 95th percentile of {}, and requests that "
      "meet no other one take {} and {}. {}. What would be enough, each alone:{}",
      limited.candidates, pipeline.text_of(nearest.plan.choice),
      format_seconds(nearest.trial.mean_s), format_seconds(nearest.trial.p95_s),
      format_seconds(alone.mean_s), format_seconds(alone.p95_s),
      queues_bind ? "Queues bind: more workers would make them shorter"
                  : "The work and the links themselves bind: only faster models, workers or links "
                    "help",
      text));
}

Error refuse_serving(const ServedPipeline& pipeline, const Tiers& tiers, double target,
                     const CostCurve& curve) {
  const double most = pipeline.most_accuracy(ModelChoice(pipeline.operators.size(), -1));
  if (most < target - kAccuracyTolerance) return refuse_accuracy(pipeline, target, most, curve);
  std::vector<ModelChoice> choices =
      all_choices(pipeline, target, ModelSearchLimits{}.exact_combinations);
  if (choices.empty()) {
    choices = beam_search(pipeline, tiers, target, ModelSearchLimits{}.beam_width);
  }
  for (size_t op = 0; op < pipeline.operators.size(); ++op) {
    const auto need = memory_need(pipeline, tiers, op, choices);
    if (!need) continue;
    if (choices.size() > kRelaxedChoices) choices.resize(kRelaxedChoices);
    return refuse_memory(pipeline, tiers, op, *need, choices, curve);
  }
  if (choices.size() > kRelaxedChoices) choices.resize(kRelaxedChoices);
  return refuse_rate(pipeline, tiers, choices, curve);
}

}  // namespace trireme
