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

TEST(HostHistory, ADamagedLineIsNamed) {
  const std::string good = "{\"host\":\"a\",\"kind\":\"hang\",\"time\":1}\n";
  for (const char* bad : {"{", "{\"host\":\"a\"}", "[]", "{\"host\":\"\",\"kind\":\"\",\"time\":1}",
                          "{\"host\":\"a\",\"kind\":\"hang\",\"time\":\"now\"}"}) {
    const auto read = host_failures_in(good + "\n" + bad + "\n", "run/history");
    ASSERT_FALSE(read.ok()) << bad;
    EXPECT_TRUE(read.error().message.starts_with("run/history:3: ")) << read.error().message;
  }
}

}  // namespace
}  // namespace trireme
