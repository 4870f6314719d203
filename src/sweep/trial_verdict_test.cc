#include "sweep/trial_verdict.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trireme {
namespace {

constexpr int64_t kSteps = 200;

// A loss that falls from 5 towards `floor`.
TrialCurve falling(double floor, int64_t steps = kSteps) {
  TrialCurve curve;
  for (int64_t step = 1; step <= steps; ++step) {
    curve.add_step(step, floor + (5.0 - floor) * std::exp(-double(step) / 40.0), 1e-3);
  }
  return curve;
}

TrialRules rules_beside(const std::vector<TrialCurve>& former, double grace = 0.25) {
  TrialRules rules{.total_steps = kSteps, .rule = MedianRule(kSteps, grace)};
  for (const TrialCurve& curve : former) {
    rules.former.push_back(rules.rule->losses_at_rungs(curve));
  }
  return rules;
}

TrialCurve cut(const TrialCurve& curve, int64_t steps) {
  TrialCurve part;
  for (int64_t step = 1; step <= steps; ++step) {
    part.add_step(step, curve.losses()[size_t(step - 1)], curve.lrs()[size_t(step - 1)]);
  }
  return part;
}

TEST(MedianRule, RungsKeepTheGraceAndLeaveTheLastStepAlone) {
  for (const int64_t steps : {1, 2, 7, 20, 200, 1001}) {
    for (const double grace : {0.0, 0.25, 0.9, 1.0}) {
      const MedianRule rule(steps, grace);
      int64_t before = 0;
      for (const int64_t rung : rule.rungs()) {
        EXPECT_GT(rung, before);
        EXPECT_GE(double(rung), grace * double(steps));
        EXPECT_LT(rung, steps);
        before = rung;
      }
    }
  }
  EXPECT_EQ(MedianRule(200, 0.25).rungs().front(), 50);
  EXPECT_EQ(MedianRule(200, 0.25).rungs().back(), 190);
  EXPECT_TRUE(MedianRule(200, 1.0).rungs().empty());
}

TEST(Verdict, ATrialWorseThanTheMedianEndsAtTheFirstRung) {
  const TrialRules rules = rules_beside({falling(1.0), falling(2.0), falling(3.0)});
  const auto verdict = verdict_of(falling(2.5), rules);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->state, TrialState::Stopped);
  EXPECT_EQ(verdict->step, 50);
  EXPECT_FALSE(verdict_of(falling(2.0), rules));
  EXPECT_FALSE(verdict_of(falling(0.5), rules));
}

TEST(Verdict, NeverWithinTheGraceNorBesideTooFewTrials) {
  EXPECT_EQ(verdict_of(falling(4.0), rules_beside({falling(1.0), falling(1.0)}, 0.5))->step, 100);
  EXPECT_FALSE(verdict_of(falling(4.0), rules_beside({falling(1.0), falling(1.0)}, 1.0)));
  EXPECT_FALSE(verdict_of(falling(4.0), rules_beside({falling(1.0)})));
  EXPECT_FALSE(verdict_of(falling(4.0), rules_beside({})));
  EXPECT_TRUE(verdict_of(falling(4.0), rules_beside({falling(1.0), falling(1.0)})));
}

// Former trials count at the rungs that they have reached.
TEST(Verdict, AStoppedTrialCountsAsFarAsItCame) {
  const TrialRules rules = rules_beside({falling(1.0), falling(3.0), falling(4.0, 60)});
  const auto verdict = verdict_of(falling(3.5), rules);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->step, 50);  // above the median of all three
  EXPECT_FALSE(verdict_of(falling(2.9), rules));
}

TEST(Verdict, IsTheSameHoweverMuchOfTheCurveIsKnown) {
  const std::vector<TrialCurve> former = {falling(1.0), falling(2.0), falling(3.0)};
  TrialCurve late = falling(1.0, 120);  // good at first
  for (int64_t step = 121; step <= kSteps; ++step) late.add_step(step, 4.0, 1e-3);
  TrialCurve lost = falling(1.0, 130);
  for (int64_t step = 131; step <= kSteps; ++step) lost.add_step(step, std::nan(""), 1e-3);
  for (const TrialCurve& whole : {late, lost, falling(2.5), falling(0.5)}) {
    const TrialRules rules = rules_beside(former);
    const auto final_verdict = verdict_of(whole, rules);
    for (int64_t steps = 0; steps <= kSteps; ++steps) {
      const TrialCurve part = cut(whole, steps);
      const auto verdict = verdict_of(part, rules);
      const bool is_known = final_verdict && steps >= final_verdict->step;
      ASSERT_EQ(verdict.has_value(), is_known) << steps;
      if (!verdict) continue;
      EXPECT_EQ(verdict->step, final_verdict->step);
      EXPECT_EQ(verdict->state, final_verdict->state);
      // A watcher that asks only where something may change misses nothing.
      EXPECT_TRUE(steps != verdict->step || may_decide(part, rules));
      SweepTrial at_once, afterwards;
      conclude_trial(part, rules, verdict, at_once);
      conclude_trial(whole, rules, final_verdict, afterwards);
      EXPECT_EQ(at_once.rungs, afterwards.rungs);
      EXPECT_EQ(at_once.loss, afterwards.loss);
      EXPECT_EQ(at_once.steps, afterwards.steps);
    }
  }
}

TEST(Verdict, ALossThatIsNotFiniteEndsATrialEvenWithoutComparison) {
  for (const double lost : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    TrialCurve curve = falling(1.0, 30);
    curve.add_step(31, lost, 1e-3);
    const auto verdict = verdict_of(curve, {.total_steps = kSteps});
    ASSERT_TRUE(verdict);
    EXPECT_EQ(verdict->state, TrialState::Diverged);
    EXPECT_EQ(verdict->step, 31);
    SweepTrial trial;
    conclude_trial(curve, {.total_steps = kSteps}, verdict, trial);
    EXPECT_FALSE(trial.loss);
  }
}

TEST(TrialCurve, ReadsWhatARunHasRecorded) {
  const TrialCurve curve = parse_trial_curve(
      "{\"event\":\"run\",\"step\":0}\n"
      "{\"event\":\"train\",\"step\":1,\"loss\":5.5,\"lr\":0.001}\n"
      "{\"event\":\"train\",\"step\":2,\"loss\":null,\"lr\":0.002}\n"
      "{\"event\":\"eval\",\"step\":2,\"val_loss\":5.25}\n"
      "{\"event\":\"train\",\"step\":9,\"loss\":1}\n"  // there is no step 3
      "nonsense\n[1]\n"
      "{\"event\":\"eval\",\"step\":3,\"val_loss\":6.25}\n"
      "{\"event\":\"train\",\"step\":3,\"lo");
  EXPECT_EQ(curve.last_step(), 2);
  EXPECT_EQ(curve.losses()[0], 5.5);
  EXPECT_TRUE(std::isnan(curve.losses()[1]));
  EXPECT_EQ(curve.lrs()[1], 0.002);
  EXPECT_EQ(curve.best_validation(10).step, 2);
  EXPECT_EQ(curve.best_validation(1).step, 0);
}

// A trial that begins with the weights of a checkpoint has no losses of the steps before.
TEST(Verdict, ATrialMayBeginAtAnyStep) {
  for (const int64_t first : {1, 2, 13, 150}) {
    TrialCurve later;
    std::string text;
    for (int64_t step = first; step < first + 40; ++step) {
      const double loss = 3.0 - 0.01 * double(step - first);
      later.add_step(step, loss, 1e-3);
      text +=
          fmt::format("{{\"event\":\"train\",\"step\":{},\"loss\":{},\"lr\":0.001}}\n", step, loss);
    }
    const TrialCurve read = parse_trial_curve(text);
    for (const TrialCurve& curve : {later, read}) {
      EXPECT_EQ(curve.first_step(), first);
      EXPECT_EQ(curve.last_step(), first + 39);
      EXPECT_EQ(curve.losses(), later.losses());
      EXPECT_FALSE(verdict_of(curve, {.total_steps = first + 39}));
      EXPECT_DOUBLE_EQ(curve.mean_loss(first + 39, 1), 3.0 - 0.39);
      EXPECT_DOUBLE_EQ(curve.mean_loss(first + 1, 40), 3.0 - 0.005);
      EXPECT_TRUE(std::isnan(curve.mean_loss(first - 1, 10)));
      SweepTrial trial;
      conclude_trial(curve, {.total_steps = first + 39}, std::nullopt, trial);
      EXPECT_EQ(trial.steps, first + 39);
      EXPECT_TRUE(trial.loss);
    }
    later.add_step(first + 40, std::nan(""), 1e-3);
    const auto lost = verdict_of(later, {.total_steps = first + 60});
    ASSERT_TRUE(lost);
    EXPECT_EQ(lost->step, first + 40);
  }
}

TEST(TrialCurve, AStepThatComesAgainReplacesAllBehindIt) {
  TrialCurve curve = falling(1.0, 10);
  curve.add_validation(10, 3.0);
  curve.add_step(5, 4.0, 1e-3);
  EXPECT_EQ(curve.last_step(), 5);
  EXPECT_EQ(curve.losses().back(), 4.0);
  EXPECT_TRUE(curve.validations().empty());
}

}  // namespace
}  // namespace trireme
