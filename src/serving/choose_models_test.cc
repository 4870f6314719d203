#include "serving/choose_models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "serving/random_serving_fixture.h"

namespace trireme {
namespace {

struct RandomCase {
  Tiers tiers;
  ServedPipeline pipeline;
};

RandomCase random_case(unsigned seed) {
  RandomServing random(seed);
  RandomCase made;
  made.tiers = random.tiers(1 + random.below(3), 2 + random.below(3), 6);
  made.pipeline = random.pipeline(made.tiers, 1 + random.below(3), 3);
  return made;
}

// The least cost of all combinations that reach the target, each placed.
double least_of_all(const RandomCase& one, double target) {
  double least = kUnlimited;
  for (const ModelChoice& choice : all_choices(one.pipeline, target, 1000)) {
    const auto deployment = deploy_work(deployment_problem(one.pipeline, one.tiers, choice));
    if (deployment) least = std::min(least, deployment->cost_per_hour());
  }
  return least;
}

double cost_of(const ServingPlan* plan) {
  return plan != nullptr ? plan->deployment.cost_per_hour() : kUnlimited;
}

TEST(CostCurve, HoldsTheCheapestPlanOfEveryTarget) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const RandomCase one = random_case(seed);
    const CostCurve curve = cost_curve(one.pipeline, one.tiers, 0.0);
    EXPECT_TRUE(curve.is_exact);
    double before = 0.0;
    for (double target = 0.0; target <= 1.0; target += 0.1) {
      const double cost = cost_of(curve.cheapest(target)), least = least_of_all(one, target);
      ASSERT_EQ(std::isinf(cost), std::isinf(least)) << "seed " << seed << " at " << target;
      if (!std::isinf(least)) {
        EXPECT_NEAR(cost, least, 1e-6 * least) << "seed " << seed;
      }
      EXPECT_GE(cost, before) << "seed " << seed;  // monotone in the target
      before = cost;
    }
    for (const ServingPlan& plan : curve.plans) {
      const DeploymentProblem problem = deployment_problem(one.pipeline, one.tiers, plan.choice);
      EXPECT_TRUE(broken_limits(problem, plan.deployment).empty()) << "seed " << seed;
      EXPECT_EQ(plan.accuracy, one.pipeline.accuracy_of(plan.choice));
    }
  }
}

TEST(CostCurve, IsNeverAboveThatOfASingleTier) {
  for (unsigned seed = 100; seed < 130; ++seed) {
    const RandomCase one = random_case(seed);
    const CostCurve curve = cost_curve(one.pipeline, one.tiers, 0.0);
    for (size_t tier = 0; tier < one.tiers.tiers.size(); ++tier) {
      const CostCurve single = cost_curve(one.pipeline, only_tier(one.tiers, tier), 0.0);
      for (const ServingPlan& plan : single.plans) {
        EXPECT_LE(cost_of(curve.cheapest(plan.accuracy)),
                  plan.deployment.cost_per_hour() * (1 + 1e-7))
            << "seed " << seed;
      }
    }
  }
}

TEST(BeamSearch, IsExactIfItKeepsEverythingAndElseNeverBetter) {
  int narrow_is_exact = 0, cases = 0;
  for (unsigned seed = 200; seed < 230; ++seed) {
    const RandomCase one = random_case(seed);
    const double target = 0.4;
    const CostCurve exact = cost_curve(one.pipeline, one.tiers, target);
    const CostCurve wide =
        cost_curve(one.pipeline, one.tiers, target, {.exact_combinations = 0, .beam_width = 1000});
    const CostCurve narrow =
        cost_curve(one.pipeline, one.tiers, target, {.exact_combinations = 0, .beam_width = 3});
    EXPECT_FALSE(wide.is_exact);
    const double least = cost_of(exact.cheapest(target));
    if (std::isinf(least)) continue;
    ++cases;
    EXPECT_NEAR(cost_of(wide.cheapest(target)), least, 1e-6 * least) << "seed " << seed;
    EXPECT_GE(cost_of(narrow.cheapest(target)), least * (1 - 1e-7)) << "seed " << seed;
    narrow_is_exact += cost_of(narrow.cheapest(target)) <= least * (1 + 1e-7);
    for (const ServingPlan& plan : narrow.plans) EXPECT_GE(plan.accuracy, target - 1e-9);
  }
  EXPECT_GT(cases, 10);
  EXPECT_GT(narrow_is_exact, cases / 2);
}

// With hardly any work for the integer programs, the plans are feasible, say that they may not be
// the best, and are joined with those of single tiers.
TEST(CostCurve, OfLittleWorkIsFeasibleAndNeverCheaper) {
  int inexact = 0;
  for (unsigned seed = 400; seed < 420; ++seed) {
    RandomServing random(seed);
    const Tiers tiers = random.tiers(3, 9, 20);
    const ServedPipeline pipeline = random.pipeline(tiers, 3, 1);
    const CostCurve exact = cost_curve(pipeline, tiers, 0.0);
    CostCurve quick = cost_curve(pipeline, tiers, 0.0, {.work = 0.0});
    inexact += !quick.is_exact;
    for (size_t tier = 0; tier < tiers.tiers.size(); ++tier) {
      const CostCurve single = cost_curve(pipeline, only_tier(tiers, tier), 0.0);
      join_curve(quick, single);
      EXPECT_LE(cost_of(quick.cheapest(0.0)), cost_of(single.cheapest(0.0)) * (1 + 1e-9));
    }
    if (exact.plans.empty()) continue;
    EXPECT_GE(cost_of(quick.cheapest(0.0)), cost_of(exact.cheapest(0.0)) * (1 - 1e-7));
    for (const ServingPlan& plan : quick.plans) {
      EXPECT_TRUE(
          broken_limits(deployment_problem(pipeline, tiers, plan.choice), plan.deployment).empty());
    }
  }
  EXPECT_GT(inexact, 0);
}

TEST(PipelineAccuracy, OfPartsIsTheMostThatAnyRestReaches) {
  for (unsigned seed = 300; seed < 320; ++seed) {
    const ServedPipeline pipeline = random_case(seed).pipeline;
    const std::vector<ModelChoice> all = all_choices(pipeline, 0.0, 1000);
    ASSERT_EQ(int64_t(all.size()), pipeline.num_combinations());
    for (size_t op = 0; op < pipeline.operators.size(); ++op) {
      ModelChoice part(pipeline.operators.size(), -1);
      part[op] = 0;
      double most = -1.0;
      for (const ModelChoice& choice : all) {
        if (choice[op] == 0) most = std::max(most, pipeline.accuracy_of(choice));
      }
      EXPECT_DOUBLE_EQ(pipeline.most_accuracy(part), most);
    }
  }
}

}  // namespace
}  // namespace trireme
