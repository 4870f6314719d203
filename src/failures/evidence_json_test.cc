#include "failures/evidence_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace trireme {
namespace {

TEST(EvidenceJson, ComesBackWithoutTheLastWords) {
  const FailureEvidence evidence{.kind = "hang",
                                 .exit_code = 5,
                                 .signal = 11,
                                 .last_words = "said",
                                 .peers_words = {"a", "b"},
                                 .kernel_lines = {"c"},
                                 .oom_kills = 1,
                                 .disk_errors = 2,
                                 .network_errors = 3,
                                 .memory_errors = 4,
                                 .device_errors = 5,
                                 .throttled_ms = 6,
                                 .nonfinite_steps = 7,
                                 .was_first = false,
                                 .phase = "save",
                                 .action = 8,
                                 .action_code = "F3 (F forward)",
                                 .call = 9,
                                 .watchdog = "w"};
  const nlohmann::json json = evidence_json(evidence);
  const FailureEvidence same = evidence_in(json);
  EXPECT_EQ(nlohmann::json(evidence_json(same)), json);
  EXPECT_EQ(json.size(), 18u);
  EXPECT_TRUE(same.last_words.empty());
  EXPECT_NE(evidence_text(same).find("action 8 F3 (F forward), call 9"), std::string::npos);
}

TEST(EvidenceJson, NamesTheRanksThatWereWrong) {
  const CorruptionAlarm alarm{.check = CorruptionCheck::Products,
                              .step = 7,
                              .ranks = {{3, "b"}, {4, "c"}},
                              .is_certain = true,
                              .clean_step = 6};
  const nlohmann::json json = evidence_json({.corruption = alarm});
  const FailureEvidence same = evidence_in(json);
  ASSERT_TRUE(same.corruption);
  EXPECT_EQ(same.corruption->check, CorruptionCheck::Products);
  EXPECT_EQ(same.corruption->step, 7);
  EXPECT_EQ(same.corruption->ranks, alarm.ranks);
  EXPECT_TRUE(same.corruption->is_certain);
  EXPECT_EQ(same.corruption->clean_step, 6);
  EXPECT_EQ(evidence_text(same),
            "rank 3 on host b and rank 4 on host c computed or held wrong numbers, as the check "
            "products has found");
  for (const char* damaged :
       {R"({"corruption":1})",
        R"({"corruption":{"check":"none","step":1,"certain":true,"ranks":[]}})",
        R"({"corruption":{"check":"a"}})",
        R"({"corruption":{"check":"state","step":1,"certain":true,"ranks":1}})"}) {
    EXPECT_THROW(evidence_in(parse_json(damaged)), nlohmann::json::exception);
  }
}

// A replica may have very many ranks, and a line of metrics has little room.
TEST(EvidenceJson, OfManyWrongRanksNamesOneOfEachHostFirst) {
  CorruptionAlarm alarm{.check = CorruptionCheck::ReplayElsewhere};
  for (int rank = 0; rank < 64; ++rank) alarm.ranks.push_back({rank, rank < 32 ? "a" : "b"});
  const auto json = corruption_json(alarm);
  ASSERT_EQ(json.at("ranks").size(), 8u);
  EXPECT_EQ(json.at("ranks")[0].at("host"), "a");
  EXPECT_EQ(json.at("ranks")[1].at("host"), "b");
  EXPECT_NE(corruption_text(alarm).find("rank 0 on host a or rank 32 on host b or rank 1 on host"),
            std::string::npos);
  EXPECT_NE(corruption_text({.check = CorruptionCheck::Replay}).find("an unknown rank"),
            std::string::npos);
}

TEST(EvidenceJson, OfNothingIsEmpty) {
  EXPECT_TRUE(evidence_json({}).empty());
  EXPECT_EQ(evidence_text({}), "");
  EXPECT_EQ(evidence_text({.signal = 9, .oom_kills = 2, .phase = "step"}),
            "signal 9, in phase step, oom_kills 2");
}

}  // namespace
}  // namespace trireme
