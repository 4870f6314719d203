#include "predict/what_if.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/clock.h"
#include "planner/make_plan.h"
#include "planner/small_run_fixture.h"

namespace trireme {
namespace {

RunPlan small_plan(int dp, int staleness = 0) {
  RunConfig config = small_run(ModelFamily::Gpt2);
  config.parallel.dp = dp;
  config.parallel.pp = staleness > 0 ? 1 : 2;
  config.parallel.staleness = staleness;
  if (staleness > 0) config.parallel.sync = GradSync::ParameterServer;
  config.batch.global_sequences = 2 * dp;
  return make_plan(config, {}).value();
}

TEST(WhatIf, DoesNotDependOnTheOrderOfDisturbances) {
  const RunPlan plan = small_plan(4);
  const Hardware hardware = two_nodes();
  const auto steps = [&](const Disturbances& disturbances) {
    const WhatIf result = what_if(plan, hardware, disturbances).value();
    std::string text = std::to_string(result.step_s());
    for (const Cause& cause : result.causes) text += cause.option + std::to_string(cause.alone_s);
    return text;
  };
  const std::string inner = hardware.tiers[0].name, outer = hardware.tiers[1].name;
  EXPECT_EQ(steps({.ranks = {{1, 1.5}, {6, 1.2}}, .links = {{inner, 0.5}, {outer, 0.9}}}),
            steps({.ranks = {{6, 1.2}, {1, 1.5}}, .links = {{outer, 0.9}, {inner, 0.5}}}));
}

TEST(WhatIf, ASlowerLinkNeverMakesTheStepShorter) {
  const RunPlan plan = small_plan(4);
  const Hardware hardware = two_nodes();
  double before_s = what_if(plan, hardware, {}).value().undisturbed_s;
  for (const double share : {1.0, 0.9, 0.5, 0.1}) {
    const WhatIf result =
        what_if(plan, hardware, {.links = {{hardware.tiers.back().name, share}}}).value();
    EXPECT_GE(result.step_s(), before_s);
    EXPECT_EQ(result.step_s(), result.causes.front().alone_s);
    before_s = result.step_s();
  }
}

TEST(WhatIf, CountsEveryRankAmongThoseThatMayWait) {
  const RunPlan plan = small_plan(4);
  const WhatIf result = what_if(plan, two_nodes(), {.ranks = {{3, 2.0}}}).value();
  int num_ranks = 0;
  for (const WaitingRanks& group : result.waiting) num_ranks += group.num_ranks;
  EXPECT_EQ(num_ranks, plan.num_ranks());
  EXPECT_GT(result.waiting.back().at_end_s, 0.0);  // the other pipelines
}

// Slow links add waiting to a step: all ranks together wait for as long as the step becomes longer.
// Nothing else changes, so the means of the groups account for all of it.
TEST(WhatIf, SlowLinksMakeRanksWaitAsLongAsTheStepBecomesLonger) {
  for (const int dp : {2, 4}) {
    const RunPlan plan = small_plan(dp);
    const Hardware hardware = two_nodes();
    for (const LinkTier& tier : hardware.tiers) {
      const WhatIf result = what_if(plan, hardware, {.links = {{tier.name, 0.1}}}).value();
      double waited_s = 0.0;
      for (const WaitingRanks& group : result.waiting) {
        EXPECT_GE(group.in_transfers_s, -1e-12 * result.step_s());
        waited_s += group.total_s() * group.num_ranks / plan.num_ranks();
      }
      const double added_s = result.step_s() - result.undisturbed_s;
      EXPECT_NEAR(waited_s, added_s, 1e-9 * result.step_s()) << tier.name << " dp " << dp;
    }
  }
  const WhatIf of_a_rank = what_if(small_plan(2), two_nodes(), {.ranks = {{1, 2.0}}}).value();
  for (const WaitingRanks& group : of_a_rank.waiting) EXPECT_EQ(group.in_transfers_s, 0.0);
}

TEST(WhatIf, RefusesWhatCannotBeDisturbed) {
  const RunPlan plan = small_plan(2);
  const Hardware hardware = two_nodes();
  const std::string tier = hardware.tiers.front().name;
  const double nan = std::nan("");
  for (const Disturbances& wrong : std::vector<Disturbances>{{.ranks = {{-1, 2.0}}},
                                                             {.ranks = {{4, 2.0}}},
                                                             {.ranks = {{1, 0.9}}},
                                                             {.ranks = {{1, nan}}},
                                                             {.ranks = {{1, 2.0}, {1, 2.0}}},
                                                             {.links = {{"nowhere", 0.5}}},
                                                             {.links = {{tier, 0.0}}},
                                                             {.links = {{tier, 1.1}}},
                                                             {.links = {{tier, nan}}},
                                                             {.links = {{tier, 0.5}, {tier, 0.5}}},
                                                             {.jitter = {.sigma = -0.1}},
                                                             {.jitter = {.sigma = 1.1}},
                                                             {.jitter = {.sigma = nan}}}) {
    const Result<WhatIf> refused = what_if(plan, hardware, wrong);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::Usage);
    EXPECT_NE(refused.error().message.find("--"), std::string::npos) << refused.error().message;
  }
  const Result<WhatIf> apart = what_if(small_plan(2, 1), hardware, {.ranks = {{0, 2.0}}});
  ASSERT_FALSE(apart.ok());
  EXPECT_NE(apart.error().message.find("parallel.staleness"), std::string::npos);
}

// On top of planning. Others may take the core meanwhile, so the time of the thread counts.
TEST(WhatIf, DisturbsTwentyFourThousandRanksWithinASecond) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a figure of the release build";
#endif
  RunConfig config = small_run(ModelFamily::Llama, 32);
  config.model.heads = 8;
  config.parallel.tp = 8;
  config.parallel.pp = 16;
  config.parallel.dp = 192;
  config.parallel.zero = 1;
  config.batch.global_sequences = 16 * 192;
  const RunPlan plan = make_plan(config, {}).value();
  const int64_t begin_ns = thread_cpu_ns();
  const WhatIf result =
      what_if(plan, two_nodes(), {.ranks = {{20000, 1.3}}, .jitter = {.sigma = 0.05}}).value();
  const double took_s = 1e-9 * double(thread_cpu_ns() - begin_ns);
  EXPECT_EQ(result.step->ranks().size(), 24576u);
  EXPECT_LT(took_s, 1.0);
  RecordProperty("seconds", std::to_string(took_s));
}

}  // namespace
}  // namespace trireme
