#include "serving/simulate_serving.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "serving/random_serving_fixture.h"

namespace trireme {
namespace {

struct SimulatedCase {
  Tiers tiers;
  ServedPipeline pipeline;
  ServingPlan plan;
};

std::vector<SimulatedCase> feasible_cases(unsigned first_seed, size_t count) {
  std::vector<SimulatedCase> cases;
  for (unsigned seed = first_seed; cases.size() < count; ++seed) {
    RandomServing random(seed);
    SimulatedCase made;
    made.tiers = random.tiers(1 + random.below(3), 2 + random.below(3), 6);
    made.pipeline = random.pipeline(made.tiers, 1 + random.below(3), 2);
    made.pipeline.utilization = std::min(made.pipeline.utilization, 0.9);
    const CostCurve curve = cost_curve(made.pipeline, made.tiers, 0.0);
    if (curve.plans.empty()) continue;
    made.plan = curve.plans.front();
    cases.push_back(std::move(made));
  }
  return cases;
}

TEST(SimulateServing, HoldsTheRateWithThePredictedUtilization) {
  for (const SimulatedCase& one : feasible_cases(0, 15)) {
    const ServingTrialResult trial = simulate_serving(one.pipeline, one.tiers, one.plan);
    EXPECT_NEAR(trial.held_share, 1.0, 0.01);
    EXPECT_NEAR(trial.finished_per_s, trial.requests_per_s, 0.03 * trial.requests_per_s);
    for (const ServedPool& pool : trial.pools) {
      EXPECT_NEAR(pool.busy, pool.predicted, 0.035) << one.pipeline.operators[size_t(pool.op)].name;
    }
    for (const ServedLink& link : trial.links) EXPECT_NEAR(link.busy, link.predicted, 0.035);
    EXPECT_LE(trial.p50_s, trial.p99_s);
  }
}

// One worker fewer, where the others cannot do its work, makes queues grow for ever.
TEST(SimulateServing, IsNotStableWithOneWorkerFewerWhereThatBinds) {
  int taken = 0;
  for (const SimulatedCase& one : feasible_cases(100, 14)) {
    const DeploymentProblem problem = deployment_problem(one.pipeline, one.tiers, one.plan.choice);
    for (size_t op = 0; op < problem.works.size(); ++op) {
      for (size_t kind = 0; kind < problem.kinds.size(); ++kind) {
        ServingPlan fewer = one.plan;
        if (--fewer.deployment.workers[op][kind] < 1) continue;
        const size_t tier = size_t(problem.kinds[kind].tier);
        const double busy = fewer.deployment.busy_share(problem, op, tier);
        if (busy < 1.1) continue;
        ++taken;
        const ServingTrialResult trial = simulate_serving(one.pipeline, one.tiers, fewer);
        const double share = one.plan.deployment.share_in(op, tier);
        EXPECT_LT(trial.held_share, 1.0 - 0.5 * share * (1.0 - 1.0 / busy));
        EXPECT_GT(trial.p99_s, 20.0 * simulate_serving(one.pipeline, one.tiers, one.plan).p99_s);
      }
    }
  }
  EXPECT_GT(taken, 3);
}

// A single worker with random arrivals and equal times is the queue M/D/1, whose mean wait is known
// (Pollaczek and Khinchine).
TEST(SimulateServing, WaitsAsAQueueWithOneWorkerDoes) {
  Tiers tiers;
  tiers.tiers.push_back({.name = "cloud"});
  tiers.kinds.push_back({"gpu", 0, 1, 1.0, 1.0, "", "", std::nullopt});
  ServedPipeline pipeline{.name = "one", .utilization = 1.0};
  pipeline.sources.push_back({"user", "cloud", 1.0, 1.0});
  Operator& op = pipeline.operators.emplace_back();
  op.name = "model";
  op.inputs.push_back({true, 0, 1.0});
  op.models.push_back({.name = "m", .speeds = {{"gpu", 2.0}}});
  for (const double rate : {0.6, 1.0, 1.4}) {
    pipeline.sources[0].items_per_s = rate;
    const CostCurve curve = cost_curve(pipeline, tiers, 0.0);
    ASSERT_FALSE(curve.plans.empty());
    const double busy = rate / 2.0;
    const double mean_s = 0.5 + 0.5 * busy / (2.0 * (1.0 - busy));
    const ServingTrialResult trial =
        simulate_serving(pipeline, tiers, curve.plans.front(), {.requests = 100'000});
    EXPECT_NEAR(trial.mean_s, mean_s, 0.04 * mean_s);
    EXPECT_NEAR(trial.pools[0].busy, busy, 0.01);
  }
}

TEST(SimulateServing, DependsOnItsSeedAlone) {
  const SimulatedCase one = feasible_cases(200, 1).front();
  const auto latency = [&](uint64_t seed) {
    return simulate_serving(one.pipeline, one.tiers, one.plan, {.seed = seed, .requests = 2000})
        .mean_s;
  };
  EXPECT_EQ(latency(3), latency(3));
  EXPECT_NE(latency(3), latency(4));
}

}  // namespace
}  // namespace trireme
