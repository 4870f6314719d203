#include <limits>
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

// The plain search knows more schedules, so its fastest layout stands beside the plan by op.
TEST_F(PlanByOpTest, TheFastestLayoutOfThePlainSearchIsShown) {
  const auto json = parse_json(succeed(search({"--json"}))).at("alpa").at("layout");
  std::vector<std::string> plain = search({"--json"});
  plain.erase(std::find(plain.begin(), plain.end(), "alpa"));
  const auto best = parse_json(succeed(plain)).at("search").at("best");
  double fastest = std::numeric_limits<double>::max();
  for (const auto& layout : best) fastest = std::min(fastest, layout.at("step_s").get<double>());
  EXPECT_EQ(json.at("predicted_step").get<double>(), fastest);
  EXPECT_NE(succeed(search({})).find("best of plan --search "), std::string::npos);
}

// Every op of every stage shows its roles, the chosen ones first; no other one that fits is
// cheaper.
TEST_F(PlanByOpTest, ExplainPricesTheRolesOfEveryOp) {
  std::ofstream("two.toml") << "[device]\nname = \"quick\"\nfp32_flops = 2e12\n"
                               "memory_bytes_per_s = 2e12\nmemory_bytes = 4_294_967_296\n"
                               "[tiers.node]\nranks = 2\nlatency_s = 1e-6\nbytes_per_s = 1e11\n";
  std::vector<std::string> args = {
      "plan",      "tiny.toml", "--ranks",  "2",     "--search",
      "alpa",      "--cluster", "two.toml", "--set", "batch.global_sequences=2",
      "--explain", "--json"};
  const auto json = parse_json(succeed(args)).at("alpa");
  int others = 0;
  for (const auto& stage : json.at("stages")) {
    for (const auto& kind : stage.at("kinds")) {
      for (const auto& op : kind.at("ops")) {
        const auto& prices = op.at("alternatives");
        ASSERT_FALSE(prices.empty());
        EXPECT_TRUE(prices.front().at("chosen").get<bool>());
        EXPECT_EQ(prices.front().at("roles"), op.at("roles"));
        const double chosen_s = prices.front().at("stage_s");
        for (const auto& price : prices) {
          EXPECT_EQ(price.at("fits").get<bool>(), !price.at("stage_s").is_null());
          others += price.at("chosen").get<bool>() ? 0 : 1;
          const bool is_by_op = !json.at("runnable").get<bool>();
          if (!is_by_op || !price.at("fits").get<bool>()) continue;
          EXPECT_GE(price.at("stage_s").get<double>(), chosen_s * (1.0 - 1e-9));
        }
      }
    }
  }
  EXPECT_GT(others, 0);
  args.pop_back();
  const std::string text = succeed(args);
  EXPECT_NE(text.find("prices of the roles of every op"), std::string::npos) << text;
  EXPECT_NE(text.find("chosen; the op computes "), std::string::npos) << text;
  const auto plain = parse_json(succeed(search({"--json"}))).at("alpa");
  EXPECT_FALSE(plain.at("stages")[0].at("kinds")[0].at("ops")[0].contains("alternatives"));
}

TEST_F(PlanByOpTest, AdviceIsNotLeftOutSilently) {
  for (const std::vector<std::string>& asked : {std::vector<std::string>{"--tokens", "1e9"},
                                                {"--max-model"},
                                                {"--rules"},
                                                {"--roofline", "roof.svg"}}) {
    const CommandAnswer answer = answer_of(search(asked));
    EXPECT_EQ(answer.exit_code, 2) << asked[0];
    EXPECT_NE(answer.err.find("gives no other advice"), std::string::npos) << answer.err;
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
