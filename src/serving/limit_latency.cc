#include "serving/limit_latency.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace trireme {
namespace {

// Shares of pipeline.utilization that are tried as limits.
constexpr double kUtilizations[] = {1.0, 0.6, 0.35, 0.2};
// A kind of workers is left out if it is slower than this share of the fastest one. 0: none is.
constexpr double kSpeedFloors[] = {0.0, 0.5};
// If there are more tiers, only all of them and single ones are tried.
constexpr size_t kMostTiersInSets = 3;
// A plan whose latencies in the short trial are so many times the limits does not keep them.
constexpr double kHopeless = 1.3;
constexpr double kLeastShareOfDeployment = 1.0 / 1024.0;  // for one deployment
constexpr double kShareOfBounds = 0.5;                    // of the work, before deployments

// A deployment that may be tried, and the least that it costs.
struct Candidate {
  size_t choice = 0;
  size_t utilization = 0;  // in kUtilizations
  DeploymentProblem problem;
  double bound = 0.0;
};

bool is_cheaper(const Candidate& a, const Candidate& b) { return a.bound < b.bound; }

// Sets of tiers as bits.
std::vector<uint64_t> tier_sets(size_t num_tiers) {
  std::vector<uint64_t> sets;
  const uint64_t end = uint64_t{1} << num_tiers;
  if (num_tiers <= kMostTiersInSets) {
    for (uint64_t set = 1; set < end; ++set) sets.push_back(set);
    return sets;
  }
  sets.push_back(end - 1);
  for (size_t tier = 0; tier < num_tiers; ++tier) sets.push_back(uint64_t{1} << tier);
  return sets;
}

// The problem with the workers of some tiers, and without slow ones.
DeploymentProblem restricted(DeploymentProblem problem, uint64_t set, double floor,
                             double utilization) {
  problem.utilization *= utilization;
  for (DeploymentProblem::Work& work : problem.works) {
    for (size_t kind = 0; kind < work.speeds.size(); ++kind) {
      const DeploymentProblem::Kind& workers = problem.kinds[kind];
      if ((set >> workers.tier & 1) == 0 || workers.workers == 0) work.speeds[kind] = 0.0;
    }
    const double fastest = *std::max_element(work.speeds.begin(), work.speeds.end());
    for (double& speed : work.speeds) {
      if (speed < floor * fastest) speed = 0.0;
    }
  }
  return problem;
}

bool is_same(const DeploymentProblem& a, const DeploymentProblem& b) {
  for (size_t op = 0; op < a.works.size(); ++op) {
    if (a.works[op].speeds != b.works[op].speeds) return false;
  }
  return a.utilization == b.utilization;
}

// Stops when the budget has no more than `reserve` left.
void add_candidates(const ServedPipeline& pipeline, const Tiers& tiers, const ModelChoice& choice,
                    size_t index, double reserve, SearchBudget& budget,
                    std::vector<Candidate>& candidates) {
  const DeploymentProblem whole = deployment_problem(pipeline, tiers, choice);
  const size_t first = candidates.size();
  for (const uint64_t set : tier_sets(tiers.tiers.size())) {
    for (size_t i = 0; i < std::size(kUtilizations); ++i) {
      for (const double floor : kSpeedFloors) {
        if (budget.left <= reserve) return;
        Candidate candidate{index, i, restricted(whole, set, floor, kUtilizations[i]), 0.0};
        const bool is_known = std::any_of(
            candidates.begin() + std::ptrdiff_t(first), candidates.end(),
            [&](const Candidate& other) { return is_same(other.problem, candidate.problem); });
        if (is_known) continue;
        const std::optional<double> bound = deployment_bound(candidate.problem, &budget);
        if (!bound) continue;
        candidate.bound = *bound;
        candidates.push_back(std::move(candidate));
      }
    }
  }
}

// Keeps so many in the order of their bounds, and of each utilization an equal part: those of low
// ones are the most expensive, and the only ones that keep tight limits.
void keep_cheapest(std::vector<Candidate>& candidates, size_t most) {
  std::stable_sort(candidates.begin(), candidates.end(), is_cheaper);
  size_t kept_of[std::size(kUtilizations)] = {};
  std::vector<Candidate> kept, others;
  for (Candidate& candidate : candidates) {
    const bool is_in_part = kept_of[candidate.utilization]++ < most / std::size(kUtilizations);
    (is_in_part ? kept : others).push_back(std::move(candidate));
  }
  if (others.size() > most - kept.size()) others.resize(most - kept.size());
  std::move(others.begin(), others.end(), std::back_inserter(kept));
  std::stable_sort(kept.begin(), kept.end(), is_cheaper);
  candidates = std::move(kept);
}

std::vector<ModelChoice> choices_of(const ServedPipeline& pipeline, const Tiers& tiers,
                                    double target, const LatencySearchLimits& limits,
                                    double reserve, SearchBudget& budget) {
  std::vector<ModelChoice> choices =
      all_choices(pipeline, target, ModelSearchLimits{}.exact_combinations);
  if (choices.empty()) {
    choices = beam_search(pipeline, tiers, target, ModelSearchLimits{}.beam_width);
  }
  std::vector<std::pair<double, ModelChoice>> bounded;
  for (ModelChoice& choice : choices) {
    if (budget.left <= reserve) break;
    const auto bound = deployment_bound(deployment_problem(pipeline, tiers, choice), &budget);
    if (bound) bounded.emplace_back(*bound, std::move(choice));
  }
  std::stable_sort(bounded.begin(), bounded.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  if (int64_t(bounded.size()) > limits.choices) bounded.resize(size_t(limits.choices));
  choices.clear();
  for (auto& [bound, choice] : bounded) choices.push_back(std::move(choice));
  return choices;
}

}  // namespace

LatencyAnswer limit_latency(const ServedPipeline& pipeline, const Tiers& tiers, double target,
                            const LatencySearchLimits& limits) {
  SearchBudget budget{.left = limits.work, .least = kLeastShareOfDeployment * limits.work};
  // The bounds of combinations may take half of what bounds may take.
  const double of_bounds = kShareOfBounds * limits.work;
  const std::vector<ModelChoice> choices =
      choices_of(pipeline, tiers, target, limits, limits.work - 0.5 * of_bounds, budget);
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < choices.size(); ++i) {
    add_candidates(pipeline, tiers, choices[i], i, limits.work - of_bounds, budget, candidates);
  }
  keep_cheapest(candidates, size_t(limits.deployments));
  ServingTrial screen = limits.trial;
  screen.requests = std::min(screen.requests, limits.screened_requests);
  const auto share_of = [&](const ServingTrialResult& trial) {
    return trial.requests == 0 ? kUnlimited : pipeline.latency.share(trial.mean_s, trial.p95_s);
  };
  LatencyAnswer answer;
  double least_cost = kUnlimited, least_share = kUnlimited;
  std::vector<ServingPlan> known;  // several restrictions may lead to the same plan
  for (const Candidate& candidate : candidates) {
    if (candidate.bound >= least_cost) break;
    auto deployment = deploy_work(candidate.problem, budget, least_cost);
    if (!deployment || deployment->cost_per_hour() >= least_cost) continue;
    const ModelChoice& choice = choices[candidate.choice];
    TimedPlan timed{{choice, pipeline.accuracy_of(choice), std::move(*deployment)}};
    const bool is_known = std::any_of(known.begin(), known.end(), [&](const ServingPlan& other) {
      return other.choice == choice && other.deployment.workers == timed.plan.deployment.workers &&
             other.deployment.done == timed.plan.deployment.done;
    });
    if (is_known) continue;
    known.push_back(timed.plan);
    ++answer.candidates;
    timed.trial = simulate_serving(pipeline, tiers, timed.plan, screen);
    const double screened = share_of(timed.trial);
    if (screened > kHopeless && screened >= least_share) continue;
    timed.trial = simulate_serving(pipeline, tiers, timed.plan, limits.trial);
    timed.share = std::max(share_of(timed.trial), screened / kHopeless);
    if (timed.share < least_share) {
      least_share = timed.share;
      answer.nearest = timed;
    }
    if (timed.share > 1.0) continue;
    least_cost = timed.plan.deployment.cost_per_hour();
    answer.cheapest = std::move(timed);
  }
  return answer;
}

ServingTrialResult undisturbed_trial(const ServedPipeline& pipeline, const Tiers& tiers,
                                     const ServingPlan& plan) {
  constexpr double kRarely = 1e-6;
  ServedPipeline rare = pipeline;
  for (Source& source : rare.sources) source.items_per_s *= kRarely;
  return simulate_serving(rare, tiers, plan, {.requests = 500});
}

}  // namespace trireme
