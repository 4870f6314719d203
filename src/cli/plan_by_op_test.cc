#include <nlohmann/json.hpp>
#include <numeric>

#include "base/file.h"
#include "base/json_text.h"
#include "cli/command_fixture.h"
#include "cli/search_by_op.h"
#include "config/config_load.h"
#include "schema/stage_counts.h"

namespace trireme {
namespace {

// The second of two nodes of one rank has a device whose kernels take twice as long.
constexpr std::string_view kFastAndSlow = R"([device]
name = "quick"
threads = 1
fp32_flops = 2e12
memory_bytes_per_s = 2e12
memory_bytes = 4_294_967_296
[devices.slow]
first_rank = 1
name = "half as quick"
fp32_flops = 1e12
memory_bytes_per_s = 1e12
[tiers.node]
ranks = 1
[tiers.cluster]
latency_s = 1e-7
bytes_per_s = 1e11
)";

class PlanByOpTest : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    std::ofstream("mixed.toml") << kFastAndSlow;
  }
  static std::vector<std::string> search(const std::vector<std::string>& more) {
    std::vector<std::string> args = {"plan",      "tiny.toml",
                                     "--ranks",   "2",
                                     "--search",  "alpa",
                                     "--cluster", "mixed.toml",
                                     "--set",     "model.layers=6",
                                     "--set",     "model.tied_head=false",
                                     "--set",     "batch.global_sequences=32"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
};

TEST_F(PlanByOpTest, OnAMixedClusterTheFasterRankGetsMoreLayersAndThePlanTrains) {
  const auto json = parse_json(succeed(search({"--json", "--out", "plan.toml"}))).at("alpa");
  const double uniform_s = json.at("uniform").at("step");
  EXPECT_LT(json.at("by_speed").at("step").get<double>(), uniform_s);
  EXPECT_LE(json.at("step").get<double>(), json.at("by_speed").at("step").get<double>());
  EXPECT_TRUE(json.at("runnable").get<bool>());
  const std::string written = read_text_file("plan.toml").value();
  const RunConfig found = load_config_text(written, "plan.toml", {}).value().config;
  const std::vector<int> layers = parse_stage_counts(found.parallel.stage_layers).value();
  ASSERT_EQ(layers.size(), 2u) << written;
  EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), 0), 6);
  EXPECT_GT(layers[0], layers[1]);
  // `trireme plan` prices the file on the same cluster, and a run takes it.
  const std::string priced = succeed({"plan", "plan.toml", "--cluster", "mixed.toml"});
  EXPECT_NE(priced.find("half as quick"), std::string::npos) << priced;
  succeed({"train", "plan.toml", "--set", "run.steps=1", "--out", "trained"});
}

// What --out has written is one of the plans that were printed, and the text names it.
TEST_F(PlanByOpTest, TheTextNamesThePlanThatIsWritten) {
  const std::string text = succeed(search({"--out", "plan.toml"}));
  const auto json = parse_json(succeed(search({"--json", "--out", "again.toml"}))).at("alpa");
  EXPECT_EQ(json.at("written"), "the plan with layers by speed");
  const std::string begin = "plan.toml has the plan with layers by speed\n";
  EXPECT_NE(text.find(begin), std::string::npos) << text;
  const RunConfig written =
      load_config_text(read_text_file("plan.toml").value(), "plan.toml", {}).value().config;
  EXPECT_NE(json.at("by_speed")
                .at("set")
                .get<std::string>()
                .find("parallel.stage_layers=" + written.parallel.stage_layers),
            std::string::npos)
      << text;
}

// The simplified price of the search has the opposite order.
RunnablePlan plan_of_seconds(double predicted_s) {
  RunnablePlan plan;
  plan.predicted_s = predicted_s;
  plan.found.step_s = -predicted_s;
  return plan;
}

// Whatever plans a run can have, the fastest of them is offered under its own name.
TEST(PlanByOp, TheFastestPlanThatRunsIsOffered) {
  const PlannedRun run;
  const RunConfig config;
  const std::vector<std::string> names = {"the best uniform plan", "the plan with layers by speed",
                                          "the plan with degrees by stage", "the plan by op"};
  const Error refused = infeasible("this plan cannot run yet");
  for (int there = 0; there < 16; ++there) {
    for (int fastest = 0; fastest < 4; ++fastest) {
      std::vector<std::optional<RunnablePlan>> plans(4);
      for (int i = 0; i < 4; ++i) {
        if ((there >> i & 1) != 0) plans[size_t(i)] = plan_of_seconds(i == fastest ? 1.0 : 2.0 + i);
      }
      const PlanByOp found{
          run,      config,
          {},       plans[3] ? Result<RunnablePlan>(*plans[3]) : Result<RunnablePlan>(refused),
          plans[0], plans[1],
          plans[2]};
      const std::optional<NamedPlan> offered = found.trainable();
      ASSERT_EQ(offered.has_value(), there != 0);
      if (there == 0) continue;
      int first = 0;
      while (!plans[size_t(first)]) ++first;
      const int expected = plans[size_t(fastest)] ? fastest : first;
      EXPECT_EQ(offered->name, names[size_t(expected)]) << there << " " << fastest;
      EXPECT_EQ(offered->plan->predicted_s, plans[size_t(expected)]->predicted_s);
    }
  }
}

TEST_F(PlanByOpTest, TheTextNamesTheDevicesOfStagesAndWhatLayersBySpeedGain) {
  const std::string text = succeed(search({}));
  EXPECT_NE(text.find(" of quick, "), std::string::npos) << text;
  EXPECT_NE(text.find(" of half as quick, "), std::string::npos) << text;
  EXPECT_NE(text.find("layers by speed       "), std::string::npos) << text;
  EXPECT_NE(text.find("times as fast as the best uniform plan"), std::string::npos) << text;
  EXPECT_NE(text.find("--set parallel.stage_layers="), std::string::npos) << text;
}

}  // namespace
}  // namespace trireme
