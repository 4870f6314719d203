#include "cli/failures_command.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "base/json_text.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class FailuresCommand : public testing::Test {
 protected:
  FailuresCommand() { fs::create_directories(folder_); }
  ~FailuresCommand() override { fs::remove_all(folder_); }

  void has_metrics(const std::string& text) {
    ASSERT_TRUE(write_file_atomically(folder_ + "/metrics.jsonl", text).ok());
  }
  Result<int> run(bool json, const std::string& rules = "") {
    std::ostringstream err;
    out_.str("");
    CommandIo io{out_, err};
    return run_failures({.run_dir = folder_, .rules = rules, .json = json}, io);
  }

  std::string folder_ =
      (fs::temp_directory_path() / ("trireme_failures." + std::to_string(::getpid()))).string();
  std::ostringstream out_;
};

constexpr const char* kDiskFull =
    R"({"event":"failure","step":40,"time":1795573001.388,"cause":"rank 1: run/shard.tmp-386: )"
    R"(cannot write: No space left on device","class":"failed","rank":1,"host":"vm","epoch":1,)"
    R"("detected_ms":187.199,"evidence":"ended with exit code 4","number":1})"
    "\n";

TEST_F(FailuresCommand, SaysClassCausesAndRemedy) {
  has_metrics(std::string("{\"event\":\"run\",\"step\":0}\n") + kDiskFull);
  ASSERT_EQ(run(true).value(), 0);
  const auto failure = parse_json(out_.str()).at("failures").at(0);
  EXPECT_EQ(failure.at("class"), "disk full");
  EXPECT_EQ(failure.at("kind"), "failed");
  EXPECT_EQ(failure.at("rank"), 1);
  EXPECT_EQ(failure.at("step"), 40);
  EXPECT_EQ(failure.at("host"), "vm");
  EXPECT_GT(failure.at("confidence"), 0.9);
  EXPECT_NE(failure.at("evidence").get<std::string>().find("No space left"), std::string::npos);
  for (const char* who : {"user", "system", "hardware"}) {
    EXPECT_FALSE(failure.at("usual_causes").at(who).get<std::string>().empty());
  }
  ASSERT_EQ(run(false).value(), 0);
  EXPECT_NE(out_.str().find("failure 1 after step 40: disk full"), std::string::npos);
  EXPECT_NE(out_.str().find("remedy        Free space"), std::string::npos);
}

// After a restart the reader need not resume. `trireme train` does not number its failures.
TEST_F(FailuresCommand, SaysThatTheRunHasResumedAndNumbersWhatHasNoNumber) {
  const std::string failure =
      R"({"event":"failure","step":7,"time":1795573001.388,"cause":"rank 0: a gradient"})"
      "\n";
  const std::string restart = "{\"event\":\"restart\",\"step\":5}\n";
  has_metrics(failure);
  ASSERT_EQ(run(false).value(), 0);
  EXPECT_NE(out_.str().find("failure 1 after step 7"), std::string::npos) << out_.str();
  EXPECT_EQ(out_.str().find("has resumed"), std::string::npos) << out_.str();
  has_metrics(failure + restart + failure);
  ASSERT_EQ(run(false).value(), 0);
  const std::string text = out_.str();
  EXPECT_LT(text.find("the run has resumed"), text.find("failure 2 after step 7")) << text;
  EXPECT_EQ(text.find("the run has resumed"), text.rfind("the run has resumed")) << text;
  ASSERT_EQ(run(true).value(), 0);
  const auto failures = parse_json(out_.str()).at("failures");
  EXPECT_TRUE(failures.at(0).contains("has_resumed"));
  EXPECT_FALSE(failures.at(1).contains("has_resumed"));
}

TEST_F(FailuresCommand, ALongCauseIsCutBetweenWords) {
  std::string words;
  while (words.size() < 400) words += "waited ";
  has_metrics("{\"event\":\"failure\",\"step\":7,\"cause\":\"" + words + "\"}\n");
  ASSERT_EQ(run(false).value(), 0);
  EXPECT_NE(out_.str().find("waited ...\n"), std::string::npos) << out_.str();
}

TEST_F(FailuresCommand, TakesRulesOfAFileAndRefusesDamage) {
  has_metrics(kDiskFull);
  const std::string rules = folder_ + "/rules.toml";
  ASSERT_TRUE(write_file_atomically(rules,
                                    "[rules.\"no space left\"]\nclass = \"device lost\"\n"
                                    "confidence = 0.99\npattern = \"no space left\"\n")
                  .ok());
  ASSERT_EQ(run(true, rules).value(), 0);
  EXPECT_NE(out_.str().find("device lost"), std::string::npos);
  has_metrics(std::string(kDiskFull) + "damaged\n");
  const Result<int> refused = run(true);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::Damaged);
  EXPECT_NE(refused.error().message.find("metrics.jsonl:2:"), std::string::npos);
  has_metrics(kDiskFull);
  ASSERT_TRUE(write_file_atomically(folder_ + "/agent.json", "{}").ok());
  EXPECT_EQ(run(true).error().kind, ErrorKind::Damaged);
}

TEST_F(FailuresCommand, WithoutARunPrintsTheRulesAndWithoutMetricsRefuses) {
  EXPECT_EQ(run(false).error().kind, ErrorKind::Usage);
  std::ostringstream out, err;
  CommandIo io{out, err};
  ASSERT_EQ(run_failures({}, io).value(), 0);
  EXPECT_NE(out.str().find("network link"), std::string::npos);
  EXPECT_NE(out.str().find("failure_rules.toml:"), std::string::npos);
}

}  // namespace
}  // namespace trireme
