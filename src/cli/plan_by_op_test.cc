#include <nlohmann/json.hpp>
#include <numeric>

#include "base/file.h"
#include "base/json_text.h"
#include "cli/command_fixture.h"
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
