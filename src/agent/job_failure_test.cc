#include "agent/job_failure.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "agent/rank_link.h"
#include "base/json_text.h"
#include "failures/evidence_json.h"
#include "watch/rank_sample.h"

namespace trireme {
namespace {

TEST(FailureLine, IsJsonWhateverARankHasSaid) {
  const JobFailure failure{.rank = 2,
                           .step = 3,
                           .kind = "failed",
                           .what = "ended with exit code 5",
                           .cause = "a \"quoted\"\nline \x01"};
  const auto json = parse_json(failure_line(failure, 2));
  EXPECT_EQ(json["event"], "failure");
  EXPECT_EQ(json["step"], 3);
  EXPECT_EQ(json["rank"], 2);
  EXPECT_EQ(json["number"], 2);
  EXPECT_EQ(json["cause"], "rank 2: a \"quoted\"\nline \x01");
}

// The kind and the class have names of their own; `class` is the kind, as it has always been.
TEST(FailureLine, HasEvidenceKindAndClassAsFields) {
  const JobFailure failure{
      .rank = 1,
      .kind = "killed",
      .what = "was killed by signal 9 (Killed)",
      .evidence = {.signal = 9, .oom_kills = 1, .phase = "step", .action = 3, .call = 70},
      .found = {.failure_class = FailureClass::HostMemory, .confidence = 0.97, .rule = "r"}};
  const auto json = parse_json(failure_line(failure, 1));
  EXPECT_EQ(json["class"], "killed");
  EXPECT_EQ(json["kind"], "killed");
  EXPECT_EQ(json["failure_class"], "host memory");
  EXPECT_EQ(json["signal"], 9);
  EXPECT_FALSE(json.contains("exit_code"));
  EXPECT_EQ(json["oom_kills"], 1);
  EXPECT_EQ(json["phase"], "step");
  EXPECT_EQ(json["action"], 3);
  EXPECT_EQ(json["call"], 70);
}

// An order has room for lines of failures, and a report for evidence, however much was said.
TEST(FailureLine, HasRoomInAnOrderWhateverWasSaid) {
  JobFailure failure{.rank = 1, .kind = "failed", .cause = std::string(1 << 16, '"')};
  failure.evidence.kernel_lines.assign(100, std::string(1000, '\\'));
  failure.evidence.peers_words.assign(100, std::string(1000, 'x'));
  FailureEvidence wrong;
  wrong.corruption = {.check = CorruptionCheck::ReplayElsewhere,
                      .ranks = std::vector<CorruptionAlarm::NamedRank>(64)};
  for (size_t rank = 0; rank < 64; ++rank) {
    wrong.corruption->ranks[rank].host.assign(64, char('!' + rank));
  }
  EXPECT_LT(json_text(evidence_json(wrong)).size(), sizeof RankReport::text);
  failure.evidence.corruption = wrong.corruption;
  EXPECT_LT(failure_line(failure, 1).size(), sizeof EpochOrder::failures);
  FailureEvidence evidence{.phase = "evaluate", .action = 1 << 20, .call = int64_t{1} << 50};
  evidence.action_code.assign(RankSample{}.action_code.size() - 1, 'x');
  evidence.kernel_lines.assign(100, std::string(1000, 'x'));
  evidence.watchdog = std::string(1000, 'x');
  EXPECT_LT(json_text(evidence_json(evidence)).size(), sizeof RankReport::text);
}

}  // namespace
}  // namespace trireme
