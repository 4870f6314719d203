#include "cli/serve_plan_command.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "cli/command_fixture.h"

namespace trireme {
namespace {

const std::string kServing = (kRoot / "configs" / "serving").string();

std::vector<std::string> serve_plan(const std::string& name, std::vector<std::string> more = {}) {
  std::vector<std::string> args = {
      "serve-plan", kServing + "/" + name + ".toml", "--tiers",
      kServing + (name == "assistant" ? "/language_tiers.toml" : "/tiers.toml")};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

// A share of 100 % is not printed beside more requests that finish than arrive.
TEST(ServePlanCommand, NoMoreRequestsFinishThanArrive) {
  for (const char* name : {"video", "speech", "assistant"}) {
    const CommandAnswer answer = answer_of(serve_plan(name));
    ASSERT_EQ(answer.exit_code, 0) << answer.err;
    const size_t end = answer.out.find(" requests/s arrive, ");
    ASSERT_NE(end, std::string::npos) << answer.out;
    const std::string line = answer.out.substr(answer.out.rfind('\n', end) + 1);
    double arrive = 0.0, finish = 0.0, share = 0.0;
    ASSERT_EQ(std::sscanf(line.c_str(), " %lf requests/s arrive, %lf finish (%lf", &arrive, &finish,
                          &share),
              3)
        << line;
    EXPECT_LE(finish, arrive) << line;
    EXPECT_LE(share, 100.0) << line;
    EXPECT_NEAR(100.0 * finish / arrive, share, 0.3) << line;
  }
}

// Every figure of the JSON follows from the others.
TEST(ServePlanCommand, JsonAddsUp) {
  for (const char* name : {"video", "speech", "assistant"}) {
    const CommandAnswer answer = answer_of(serve_plan(name, {"--json"}));
    ASSERT_EQ(answer.exit_code, 0) << answer.err;
    const auto json = parse_json(answer.out);
    const double cost = json.at("cost_per_hour");
    EXPECT_NEAR(cost, double(json.at("workers_per_hour")) + double(json.at("traffic_per_hour")),
                1e-9);
    EXPECT_GE(json.at("accuracy"), json.at("target"));
    for (const auto& op : json.at("operators")) {
      double share = 0.0;
      for (const auto& tier : op.at("tiers")) {
        share += double(tier.at("share"));
        EXPECT_LE(tier.at("utilization"), 0.8 + 1e-9);
      }
      EXPECT_NEAR(share, 1.0, 1e-9);
    }
    for (const auto& tier : json.at("single_tiers")) {
      if (tier.at("cost_per_hour").is_null()) continue;
      EXPECT_GE(double(tier.at("cost_per_hour")), cost - 1e-9);
      EXPECT_NEAR(double(tier.at("saves")), 1.0 - cost / double(tier.at("cost_per_hour")), 1e-9);
    }
    double before = 0.0;
    bool is_on_curve = false;
    for (const auto& point : json.at("curve")) {
      EXPECT_GE(double(point.at("cost_per_hour")), before);
      before = point.at("cost_per_hour");
      is_on_curve = is_on_curve || before == cost;
    }
    EXPECT_TRUE(is_on_curve);
    const auto& trial = json.at("simulation");
    EXPECT_NEAR(double(trial.at("held")), 1.0, 0.01);
    EXPECT_LE(double(trial.at("latency_s").at("p50")), double(trial.at("latency_s").at("p99")));
    for (const auto& pool : trial.at("pools")) {
      EXPECT_NEAR(double(pool.at("utilization")), double(pool.at("predicted")), 0.03);
    }
  }
}

TEST(ServePlanCommand, TellsTheSameAsTextAndPicture) {
  const auto json = parse_json(answer_of(serve_plan("video", {"--json"})).out);
  const std::string text = answer_of(serve_plan("video")).out;
  const std::string picture = answer_of(serve_plan("video", {"--svg"})).out;
  EXPECT_TRUE(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
  for (const auto& op : json.at("operators")) {
    for (const std::string name : {op.at("name"), op.at("model")}) {
      EXPECT_NE(text.find(name), std::string::npos) << name;
      EXPECT_NE(picture.find(name), std::string::npos) << name;
    }
  }
}

TEST(ServePlanCommand, CostsMoreForMoreAccuracy) {
  double before = 0.0;
  for (const char* accuracy : {"0.6", "0.7", "0.8", "0.88"}) {
    const auto json =
        parse_json(answer_of(serve_plan("video", {"--json", "--accuracy", accuracy})).out);
    EXPECT_GE(double(json.at("cost_per_hour")), before);
    before = json.at("cost_per_hour");
  }
}

TEST(ServePlanCommand, ALatencyLimitIsKeptOrRefusedWithWhatWouldBeEnough) {
  const auto free = parse_json(answer_of(serve_plan("video", {"--json"})).out);
  const auto limited =
      parse_json(answer_of(serve_plan("video", {"--json", "--p95-latency", "0.05"})).out);
  EXPECT_LE(double(limited.at("simulation").at("latency_s").at("p95")), 0.05);
  EXPECT_GT(double(free.at("simulation").at("latency_s").at("p95")), 0.05);
  EXPECT_GT(double(limited.at("cost_per_hour")), double(free.at("cost_per_hour")));
  EXPECT_TRUE(free.at("search").at("exact"));
  EXPECT_FALSE(limited.at("search").at("exact"));
  const auto simulated = limited.at("search").at("simulated_plans");
  const std::string text = answer_of(serve_plan("video", {"--p95-latency", "0.05"})).out;
  EXPECT_NE(
      text.find("search: the cheapest of " + std::to_string(simulated.get<int64_t>()) + " plans"),
      std::string::npos)
      << text;
  const CommandAnswer refused = answer_of(serve_plan("video", {"--mean-latency", "0.0001"}));
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_NE(refused.err.find("pipeline.mean_latency_s = "), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find(" plans that were tried keeps"), std::string::npos) << refused.err;
  EXPECT_EQ(answer_of(serve_plan("video", {"--mean-latency", "-1"})).exit_code, 2);
}

TEST(ServePlanCommand, RefusesWhatCannotBe) {
  const CommandAnswer more = answer_of(serve_plan("video", {"--accuracy", "0.95"}));
  EXPECT_EQ(more.exit_code, 3);
  EXPECT_NE(more.err.find("--accuracy 0.884"), std::string::npos) << more.err;
  EXPECT_EQ(answer_of(serve_plan("video", {"--accuracy", "0.884"})).exit_code, 0);
  const CommandAnswer wrong = answer_of(serve_plan("video", {"--accuracy", "7"}));
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_NE(wrong.err.find("--accuracy 7 must be from 0 to 1"), std::string::npos);
  const CommandAnswer bare = answer_of({"serve-plan", kServing + "/video.toml"});
  EXPECT_EQ(bare.exit_code, 2);
  EXPECT_NE(bare.err.find("--tiers is missing"), std::string::npos);
  const CommandAnswer swapped =
      answer_of({"serve-plan", kServing + "/tiers.toml", "--tiers", kServing + "/tiers.toml"});
  EXPECT_EQ(swapped.exit_code, 2);
}

}  // namespace
}  // namespace trireme
