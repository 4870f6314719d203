#include "cli/plan_what_if.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json_text.h"
#include "cli/plan_command.h"

namespace trireme {
namespace {

// Plans eight ranks on a described cluster and returns what is printed.
Result<std::string> planned_what_if(const std::function<void(PlanOptions&)>& change) {
  const std::filesystem::path root = std::filesystem::path(__FILE__).parent_path() / ".." / "..";
  std::ostringstream out, err;
  CommandIo io{out, err};
  PlanOptions options{.cluster = (root / "clusters" / "dgx-h100.toml").string()};
  options.config.files = {(root / "configs" / "tiny-gpt2.toml").string()};
  options.config.overrides = {"parallel.dp=2", "parallel.pp=2", "parallel.tp=2",
                              "batch.micro_sequences=1", "batch.global_sequences=8"};
  change(options);
  TRIREME_TRY(code, run_plan(options, io));
  EXPECT_EQ(code, 0);
  return out.str();
}

TEST(PlanWhatIf, RefusesWhatIsNoRankTierOrNumberAndSaysHowToWriteIt) {
  const auto refused = [](const WhatIfOptions& options) {
    const Result<std::string> printed =
        planned_what_if([&](PlanOptions& plan) { plan.what_if = options; });
    EXPECT_FALSE(printed.ok());
    if (printed.ok()) return std::string();
    EXPECT_EQ(printed.error().kind, ErrorKind::Usage);
    return printed.error().message;
  };
  for (const char* text : {"", "5", "=1.3", "5=", "five=1.3", "5=fast", "5=1.3x", "5.5=1.3",
                           "5=nan", "5=inf", "99999999999=2", "5==2"}) {
    EXPECT_NE(refused({.slow_ranks = {text}}).find("such as 5=1.3"), std::string::npos) << text;
  }
  for (const char* text : {"", "node", "=0.5", "node=", "node=half", "node=nan"}) {
    EXPECT_NE(refused({.slow_links = {text}}).find("such as node=0.5"), std::string::npos) << text;
  }
  EXPECT_NE(refused({.slow_ranks = {"8=2"}}).find("ranks 0 to 7"), std::string::npos);
  EXPECT_NE(refused({.slow_ranks = {"7=0.5"}}).find("from 1"), std::string::npos);
  EXPECT_NE(refused({.slow_links = {"rack=0.5"}}).find("node, cluster"), std::string::npos);
  EXPECT_NE(refused({.slow_links = {"node=0"}}).find("at most 1"), std::string::npos);
  EXPECT_NE(refused({.jitter = 2.0}).find("--jitter 0.05"), std::string::npos);
  EXPECT_NE(refused({.seed = 2}).find("--jitter SIGMA"), std::string::npos);
}

// Nobody is told that no rank waits longer beside a step that has become longer.
TEST(PlanWhatIf, ASlowLinkIsSomethingThatRanksWaitFor) {
  const std::string printed =
      planned_what_if([](PlanOptions& plan) { plan.what_if.slow_links = {"node=0.01"}; }).value();
  EXPECT_EQ(printed.find("do not wait longer"), std::string::npos) << printed;
  EXPECT_NE(printed.find(" longer in transfers"), std::string::npos) << printed;
}

TEST(PlanWhatIf, IsRefusedBesideOptionsThatWouldIgnoreIt) {
  for (const auto& change : std::vector<std::function<void(PlanOptions&)>>{
           [](PlanOptions& options) { options.search = ""; },
           [](PlanOptions& options) { options.pareto = true; },
           [](PlanOptions& options) { options.rank = 1; }}) {
    const Result<std::string> refused = planned_what_if([&](PlanOptions& options) {
      options.what_if.slow_ranks = {"1=2"};
      change(options);
    });
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::Usage);
  }
}

TEST(PlanWhatIf, PrintsTheStepItsCausesAndADiagnosis) {
  const auto disturb = [](PlanOptions& options) {
    options.what_if = {
        .slow_ranks = {"5=2"}, .slow_links = {"node=0.5"}, .jitter = 0.05, .seed = 3};
  };
  const std::string text = planned_what_if(disturb).value();
  for (const char* part : {"what if", "--slow-rank 5=2 alone", "--slow-link node=0.5 alone",
                           "--jitter 0.05 --seed 3 alone", "straggler", "rank 5"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
  const nlohmann::json json = parse_json(planned_what_if([&](PlanOptions& options) {
                                           disturb(options);
                                           options.json = true;
                                         }).value());
  EXPECT_EQ(json["what_if"]["undisturbed_s"], json["step_s"]);
  EXPECT_GT(json["what_if"]["step_s"], json["step_s"]);
  EXPECT_EQ(json["what_if"]["causes"].size(), 3u);
  for (const char* key : {"kind", "share", "sentence", "setting", "gain"}) {
    EXPECT_TRUE(json["diagnosis"].at(0).contains(key)) << key;
  }
}

// Without disturbances nothing of them is printed.
TEST(PlanWhatIf, IsSilentUnlessItIsAsked) {
  const std::string text = planned_what_if([](PlanOptions&) {}).value();
  EXPECT_EQ(text.find("what if"), std::string::npos);
  EXPECT_NE(text.find("diagnosis"), std::string::npos);
}

}  // namespace
}  // namespace trireme
