#include "agent/host_history.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

constexpr double kNow = 1.8e9, kDay = 86400.0;

TEST(HostHistory, ScoreHalvesInAWeekAndCountsOnlyThisHost) {
  const std::vector<HostFailure> failures = {
      {"a", "hang", kNow}, {"a", "host", kNow - 7 * kDay}, {"b", "hang", kNow}};
  EXPECT_DOUBLE_EQ(score_of(failures, "a", kNow), 1.5);
  EXPECT_DOUBLE_EQ(score_of(failures, "a", kNow + 14 * kDay), 1.5 / 4);
  EXPECT_DOUBLE_EQ(score_of(failures, "c", kNow), 0.0);
}

TEST(HostHistory, ThreeFailuresInADayLeaveAHostOutAndInAMonthDoNot) {
  for (const double apart_s : {0.2 * kDay, 10 * kDay}) {
    const std::vector<HostFailure> failures = {
        {"a", "hang", kNow}, {"a", "hang", kNow - apart_s / 2}, {"a", "hang", kNow - apart_s}};
    EXPECT_EQ(score_of(failures, "a", kNow) >= kDrainScore, apart_s < kDay);
  }
}

TEST(HostHistory, ReadsWhatItWritesButNotWhatWasDoneByHand) {
  const std::string text =
      history_lines({{.furthest_step = 1, .kind = "hang", .host = "a\"b", .time_s = 12.5},
                     {.furthest_step = 1, .kind = "killed", .host = "a", .time_s = 1.0},
                     {.furthest_step = 1, .kind = "host", .host = "c", .time_s = 3.0},
                     {.furthest_step = 1, .kind = "lost", .host = "", .time_s = 3.0}});
  const auto read = host_failures_in(text, "history");
  ASSERT_TRUE(read.ok());
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ(read->front().host, "a\"b");
  EXPECT_EQ(read->front().time_s, 12.5);
  EXPECT_EQ(read->back().kind, "host");
}

JobFailure corruption_of(std::vector<CorruptionAlarm::NamedRank> ranks, bool is_certain) {
  JobFailure failure{.furthest_step = 1, .kind = "failed", .host = "leader", .time_s = kNow};
  failure.evidence.corruption = {.check = CorruptionCheck::ReplayElsewhere,
                                 .ranks = std::move(ranks),
                                 .is_certain = is_certain};
  return failure;
}

// The rank that ends first with a corrupt state is not the one that was wrong.
TEST(HostHistory, AHostThatAloneWasWrongIsDrainedAtOnceAndNobodyElseIsBlamed) {
  for (const bool is_certain : {true, false}) {
    const auto read =
        host_failures_in(history_lines({corruption_of({{1, "b"}, {2, "b"}}, is_certain)}), "h");
    ASSERT_TRUE(read.ok());
    ASSERT_EQ(read->size(), 1u);
    EXPECT_EQ(read->front().kind, "corrupted");
    EXPECT_GE(score_of(*read, "b", kNow), kDrainScore);
    EXPECT_EQ(score_of(*read, "leader", kNow), 0.0);
  }
}

TEST(HostHistory, HostsOfWhichOneWasWrongShareOneFailure) {
  const auto read =
      host_failures_in(history_lines({corruption_of({{0, "a"}, {1, "b"}}, false)}), "h");
  ASSERT_TRUE(read.ok());
  EXPECT_DOUBLE_EQ(score_of(*read, "a", kNow), 0.5);
  EXPECT_DOUBLE_EQ(score_of(*read, "b", kNow), 0.5);
  EXPECT_EQ(history_lines({corruption_of({}, false)}), "") << "nothing tells who was wrong";
}

TEST(HostHistory, ADamagedLineIsNamed) {
  const std::string good = "{\"host\":\"a\",\"kind\":\"hang\",\"time\":1}\n";
  for (const char* bad : {"{", "{\"host\":\"a\"}", "[]", "{\"host\":\"\",\"kind\":\"\",\"time\":1}",
                          "{\"host\":\"a\",\"kind\":\"hang\",\"time\":\"now\"}",
                          "{\"host\":\"a\",\"kind\":\"hang\",\"time\":1,\"weight\":-1}",
                          "{\"host\":\"a\",\"kind\":\"hang\",\"time\":1,\"weight\":1e9}"}) {
    const auto read = host_failures_in(good + "\n" + bad + "\n", "run/history");
    ASSERT_FALSE(read.ok()) << bad;
    EXPECT_TRUE(read.error().message.starts_with("run/history:3: ")) << read.error().message;
  }
}

}  // namespace
}  // namespace trireme
