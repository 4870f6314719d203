#include "planner/diagnosis.h"

#include <gtest/gtest.h>

#include "planner/diagnose_run.h"
#include "planner/layout_choice.h"
#include "planner/make_plan.h"
#include "planner/small_run_fixture.h"

namespace trireme {
namespace {

std::vector<RunConfig> diagnosed_runs() {
  std::vector<RunConfig> configs;
  for (const Mesh& mesh : {Mesh{.pp = 4}, Mesh{.tp = 2, .dp = 2}, Mesh{.dp = 4}, Mesh{.cp = 4},
                           Mesh{.pp = 2, .dp = 2}, Mesh{.dp = 4, .ep = 4}}) {
    for (const int zero : {0, 3}) {
      RunConfig config = small_run(mesh.ep > 1 ? ModelFamily::Moe : ModelFamily::Gpt2, 8);
      config.parallel.tp = mesh.tp;
      config.parallel.cp = mesh.cp;
      config.parallel.pp = mesh.pp;
      config.parallel.dp = mesh.dp;
      config.parallel.ep = mesh.ep;
      config.parallel.zero = mesh.dp > 1 ? zero : 0;
      config.batch.global_sequences = 8;
      configs.push_back(config);
    }
  }
  return configs;
}

// Applies options such as "--set parallel.pp=2 --set parallel.dp=2" to the keys that remedies set.
RunConfig with_setting(const RunConfig& config, const std::string& setting) {
  for (const ScheduleKind schedule :
       {ScheduleKind::OneFOneB, ScheduleKind::Interleaved, ScheduleKind::ZbH1, ScheduleKind::ZbH2,
        ScheduleKind::ZbV, ScheduleKind::DualpipeV, config.parallel.schedule}) {
    for (const int pp : {1, 2, 4}) {
      for (const int tp : {1, 2}) {
        for (const int cp : {1, 2, 4}) {
          for (const int zero : {0, 1, 2, 3}) {
            RunConfig other = config;
            other.parallel.schedule = schedule;
            other.parallel.tp = tp;
            other.parallel.pp = pp;
            other.parallel.cp = cp;
            other.parallel.zero = zero;
            if (4 % (tp * pp * cp) != 0) continue;
            other.parallel.dp = 4 / (tp * pp * cp);
            if (set_options(config, other) == setting) return other;
          }
        }
      }
    }
  }
  return config;
}

// The gain is that of the plan with this setting, and a setting that is refused is never offered.
TEST(Diagnosis, GainsAreThoseOfThePlanWithTheSetting) {
  const Hardware hardware = two_nodes();
  int num_checked = 0;
  for (const RunConfig& config : diagnosed_runs()) {
    const Result<RunPlan> plan = make_plan(config, {});
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    for (const StepFinding& finding : diagnose_plan(*plan, {}, hardware)) {
      EXPECT_GE(finding.share, 0.01);
      EXPECT_LE(finding.share, 1.0);
      EXPECT_FALSE(finding.sentence.empty());
      EXPECT_EQ(finding.setting.empty(), finding.gain == 0.0);
      RunConfig planned = plan->config;
      planned.batch.global_sequences = plan->global_sequences;
      const RunConfig other = with_setting(planned, finding.setting);
      if (finding.setting.empty() || set_options(planned, other) != finding.setting) continue;
      const Result<RunPlan> changed = make_plan(other, {});
      ASSERT_TRUE(changed.ok()) << finding.setting;
      EXPECT_DOUBLE_EQ(finding.gain, 1.0 - predicted_step_s(*changed, hardware) /
                                               predicted_step_s(*plan, hardware));
      ++num_checked;
    }
  }
  EXPECT_GE(num_checked, 5);
}

// A cause without costs is no finding, and the greatest costs come first.
TEST(Diagnosis, FindsWhatCostsAHundredthOfTheStepAndOrdersByShare) {
  const RunConfig config = small_run(ModelFamily::Gpt2);
  const RemedyPrices prices{.step_s = 1.0, .with = [](const RunConfig&) { return 0.9; }};
  const auto kinds = [&](const StepTimes& a, const StepTimes& b, int stage_of_a = 0) {
    const std::vector<RankStep> ranks = {{stage_of_a, a}, {1, b}};
    std::string text;
    for (const StepFinding& finding :
         diagnose({.config = config, .shares = shares_of(ranks)}, prices)) {
      text += std::string(name_of(finding.kind)) + ";";
      EXPECT_NE(finding.sentence.find(" %"), std::string::npos);
    }
    return text;
  };
  const StepTimes compute{.compute = 1.0, .step = 1.0};
  EXPECT_EQ(kinds(compute, compute), "");
  StepTimes idle{.compute = 0.6, .bubble = 0.4, .step = 1.0};
  EXPECT_EQ(kinds(idle, idle), "idle;");
  idle.exposed[0] = 0.1;  // dp
  EXPECT_EQ(kinds(idle, idle), "idle;missing overlap;");
  EXPECT_EQ(kinds({.compute = 0.995, .bubble = 0.005, .step = 1.0}, compute), "");
  EXPECT_EQ(kinds({.compute = 0.5, .bubble = 0.5, .step = 1.0}, compute), "straggler;idle;");
  EXPECT_EQ(kinds({.compute = 0.5, .bubble = 0.5, .step = 1.0}, compute, 1), "straggler;idle;");
  EXPECT_TRUE(diagnose({.config = config, .shares = shares_of({})}, prices).empty());
}

TEST(Diagnosis, OffersNoSettingThatIsRefusedOrSlower) {
  RunConfig config = small_run(ModelFamily::Gpt2);
  config.parallel.pp = 4;
  const std::vector<RankStep> ranks(4, {0, {.compute = 0.6, .bubble = 0.4, .step = 1.0}});
  const Symptoms symptoms{.config = config, .shares = shares_of(ranks)};
  for (const std::optional<double> price : {std::optional<double>(), std::optional<double>(1.0)}) {
    const RemedyPrices prices{.step_s = 1.0, .with = [&](const RunConfig&) { return price; }};
    const std::vector<StepFinding> findings = diagnose(symptoms, prices);
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings.front().setting, "");
    EXPECT_EQ(findings.front().gain, 0.0);
  }
}

// A measured straggler gains what the simulated step without it does.
TEST(Diagnosis, GainOfAMeasuredStragglerIsSimulated) {
  RunConfig config = small_run(ModelFamily::Gpt2);
  config.parallel.dp = 4;
  config.batch.global_sequences = 8;
  const RunPlan plan = make_plan(config, {}).value();
  const Hardware hardware = two_nodes();
  std::vector<MeasuredStep> measured;
  for (int rank = 0; rank < 4; ++rank) {
    StepTimes time{.compute = rank == 2 ? 3.0 : 2.0, .step = 3.0};
    time.exposed[0] = 3.0 - time.compute;
    measured.push_back({rank, time});
  }
  const double slowed_s = what_if(plan, hardware, {.ranks = {{2, 1.5}}}).value().step_s();
  const std::vector<StepFinding> findings = diagnose_run(plan, {}, hardware, measured);
  ASSERT_FALSE(findings.empty());
  const StepFinding& straggler = findings.front();
  EXPECT_EQ(straggler.kind, FindingKind::Straggler);
  EXPECT_NE(straggler.sentence.find("Rank 2"), std::string::npos);
  EXPECT_DOUBLE_EQ(straggler.gain, 1.0 - predicted_step_s(plan, hardware) / slowed_s);
}

TEST(Diagnosis, GainOfADisturbanceIsTheStepWithoutIt) {
  RunConfig config = small_run(ModelFamily::Gpt2);
  config.parallel.pp = 2;
  config.parallel.dp = 2;
  const RunPlan plan = make_plan(config, {}).value();
  const Hardware hardware = two_nodes();
  const Disturbances both{.ranks = {{1, 2.0}, {2, 1.2}}};
  const WhatIf result = what_if(plan, hardware, both).value();
  const std::vector<StepFinding> findings = diagnose_disturbed(result);
  ASSERT_EQ(findings.size(), 2u);
  for (size_t i = 0; i < findings.size(); ++i) {
    const WhatIf other = what_if(plan, hardware, {.ranks = {both.ranks[1 - i]}}).value();
    EXPECT_DOUBLE_EQ(findings[i].gain, 1.0 - other.step_s() / result.step_s());
    EXPECT_EQ(result.causes[i].without_s, other.step_s());
  }
}

}  // namespace
}  // namespace trireme
