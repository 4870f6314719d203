#include "serving/limit_latency.h"

#include <gtest/gtest.h>

#include "serving/plan_serving.h"
#include "serving/random_serving_fixture.h"

namespace trireme {
namespace {

struct LimitedCase {
  Tiers tiers;
  ServedPipeline pipeline;
  ServingAnswer unlimited;
  ServingTrialResult trial;  // of the answer without limits
};

std::vector<LimitedCase> limited_cases(size_t count) {
  std::vector<LimitedCase> cases;
  for (unsigned seed = 0; cases.size() < count; ++seed) {
    RandomServing random(seed);
    LimitedCase made;
    made.tiers = random.tiers(1 + random.below(3), 2 + random.below(2), 6);
    for (Tier& tier : made.tiers.tiers) tier.latency_s = random.between(0.0, 0.2);
    made.pipeline = random.pipeline(made.tiers, 1 + random.below(2), 2);
    made.pipeline.utilization = std::min(made.pipeline.utilization, 0.9);
    Result<ServingAnswer> answer = plan_serving(made.pipeline, made.tiers, 0.0);
    if (!answer.ok()) continue;
    made.unlimited = std::move(*answer);
    made.trial = simulate_serving(made.pipeline, made.tiers, made.unlimited.plan);
    if (made.trial.requests == 0) continue;
    cases.push_back(std::move(made));
  }
  return cases;
}

// A tighter limit costs at least as much, the plan keeps it, and no tier alone is cheaper with the
// same limit. Whatever is refused for one limit is refused for tighter ones.
TEST(LimitLatency, IsMonotoneKeptAndNeverWorseThanASingleTier) {
  int limited = 0, refused = 0;
  for (LimitedCase& one : limited_cases(4)) {
    for (const bool of_mean : {false, true}) {
      const double now_s = of_mean ? one.trial.mean_s : one.trial.p95_s;
      double before = one.unlimited.plan.deployment.cost_per_hour();
      bool was_refused = false;
      for (const double share : {1.5, 0.8, 0.4, 0.05}) {
        one.pipeline.latency = {};
        (of_mean ? one.pipeline.latency.mean_s : one.pipeline.latency.p95_s) = share * now_s;
        const Result<ServingAnswer> answer = plan_serving(one.pipeline, one.tiers, 0.0);
        if (!answer.ok()) {
          EXPECT_EQ(answer.error().kind, ErrorKind::Infeasible);
          was_refused = true;
          ++refused;
          continue;
        }
        EXPECT_FALSE(was_refused) << share;
        const double cost = answer->plan.deployment.cost_per_hour();
        EXPECT_GE(cost, before - 1e-9);
        limited += cost > before + 1e-9 ? 1 : 0;
        before = cost;
        const ServingTrialResult trial = simulate_serving(one.pipeline, one.tiers, answer->plan);
        EXPECT_LE(of_mean ? trial.mean_s : trial.p95_s, share * now_s * (1.0 + 1e-9));
        const DeploymentProblem problem =
            deployment_problem(one.pipeline, one.tiers, answer->plan.choice);
        EXPECT_TRUE(broken_limits(problem, answer->plan.deployment).empty());
        for (size_t tier = 0; tier < one.tiers.tiers.size(); ++tier) {
          const std::optional<double> alone = answer->cost_on(tier);
          if (alone) {
            EXPECT_LE(cost, *alone + 1e-9);
          }
        }
      }
    }
  }
  EXPECT_GT(limited, 0);
  EXPECT_GT(refused, 0);
}

// What a refusal names as enough is enough.
TEST(LimitLatency, ARefusalNamesALimitThatHasAPlan) {
  int refused = 0;
  for (LimitedCase& one : limited_cases(3)) {
    one.pipeline.latency.p95_s = 0.02 * one.trial.p95_s;
    const Result<ServingAnswer> answer = plan_serving(one.pipeline, one.tiers, 0.0);
    if (answer.ok()) continue;
    ++refused;
    const std::string& message = answer.error().message;
    EXPECT_TRUE(message.find("Queues bind") != std::string::npos ||
                message.find("themselves bind") != std::string::npos)
        << message;
    const std::string key = "pipeline.p95_latency_s = ";
    const size_t at = message.find(key);
    ASSERT_NE(at, std::string::npos) << message;
    one.pipeline.latency.p95_s = std::stod(message.substr(at + key.size()));
    EXPECT_TRUE(plan_serving(one.pipeline, one.tiers, 0.0).ok()) << message;
  }
  EXPECT_GT(refused, 0);
}

// Also where a short trial, in which a plan may look worse, comes first.
TEST(LimitLatency, TheNearestPlanKeepsItsShareOfTheLimits) {
  const LatencySearchLimits limits{.trial = {.requests = 500}, .screened_requests = 10};
  int nearest = 0;
  for (LimitedCase& one : limited_cases(12)) {
    LatencyLimits& latency = one.pipeline.latency;
    latency.mean_s = 0.05 * one.trial.mean_s;
    const LatencyAnswer refused = limit_latency(one.pipeline, one.tiers, 0.0, limits);
    if (refused.cheapest || !refused.nearest) continue;
    ++nearest;
    latency.mean_s *= refused.nearest->share * (1.0 + 1e-9);
    EXPECT_TRUE(limit_latency(one.pipeline, one.tiers, 0.0, limits).cheapest);
  }
  EXPECT_GT(nearest, 0);
}

// One tier, whose plans without spare workers are cheapest, and more of these than may be tried.
TEST(LimitLatency, EveryUtilizationIsTried) {
  Tiers tiers;
  tiers.tiers.push_back({.name = "here"});
  tiers.kinds.push_back(
      {.name = "thread", .workers = 100, .price_per_hour = 1.0, .memory_bytes = 1.0});
  ServedPipeline pipeline;
  pipeline.sources.push_back({"users", "here", 20.0, 0.0});
  pipeline.operators.push_back({.name = "answer", .inputs = {{true, 0, 1.0}}});
  for (int i = 0; i < 20; ++i) {
    pipeline.operators[0].models.push_back(
        {.name = "model" + std::to_string(i), .speeds = {{"thread", 4.0 - 0.001 * i}}});
  }
  pipeline.latency.p95_s = 0.26;
  const LatencyAnswer answer =
      limit_latency(pipeline, tiers, 0.0, {.deployments = 20, .trial = {.requests = 5'000}});
  ASSERT_TRUE(answer.cheapest);
  EXPECT_LE(answer.cheapest->trial.p95_s, 0.26);
}

TEST(LimitLatency, ItsBoundsAreChargedToTheBudget) {
  LimitedCase one = std::move(limited_cases(1).front());
  one.pipeline.latency.mean_s = one.trial.mean_s;
  EXPECT_GT(limit_latency(one.pipeline, one.tiers, 0.0).candidates, 0);
  EXPECT_EQ(limit_latency(one.pipeline, one.tiers, 0.0, {.work = 0.0}).candidates, 0);
}

TEST(LimitLatency, ARefusalSaysWhetherNoPlanWasFoundOrNoneCouldBeSimulated) {
  const LimitedCase one = std::move(limited_cases(1).front());
  const auto message = [&](const LatencyAnswer& limited) {
    return refuse_latency(one.pipeline, one.tiers, 0.0, limited).message;
  };
  EXPECT_NE(message({}).find("no plan was found"), std::string::npos);
  EXPECT_NE(message({.candidates = 3}).find("cannot be checked"), std::string::npos);
}

// Without queues the latency of one worker is the time of an item.
TEST(LimitLatency, ARequestThatMeetsNoOtherOneTakesTheTimeOfItsWork) {
  Tiers tiers;
  tiers.tiers.push_back({.name = "here"});
  tiers.kinds.push_back({.name = "thread", .workers = 1, .memory_bytes = 1.0});
  ServedPipeline pipeline;
  pipeline.sources.push_back({"users", "here", 3.0, 0.0});
  pipeline.operators.push_back({.name = "answer",
                                .inputs = {{true, 0, 1.0}},
                                .models = {{.name = "only", .speeds = {{"thread", 4.0}}}}});
  const ServingAnswer answer = plan_serving(pipeline, tiers, 0.0).value();
  EXPECT_NEAR(undisturbed_trial(pipeline, tiers, answer.plan).mean_s, 0.25, 1e-3);
  pipeline.latency.mean_s = 0.3;  // M/D/1 with three quarters of the time busy has 0.625 s
  const Result<ServingAnswer> limited = plan_serving(pipeline, tiers, 0.0);
  ASSERT_FALSE(limited.ok());
  EXPECT_NE(limited.error().message.find("Queues bind"), std::string::npos)
      << limited.error().message;
  tiers.kinds.front().workers = 4;
  const ServingAnswer more = plan_serving(pipeline, tiers, 0.0).value();
  EXPECT_GT(more.plan.deployment.workers[0][0], 1);
}

}  // namespace
}  // namespace trireme
