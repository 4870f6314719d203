#include "device/cpu_load.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace trireme {
namespace {

constexpr const char* kStat =
    "cpu  300 0 100 500 100 0 0 40 0 0\n"
    "cpu0 100 10 50 200 40 5 5 20 0 0\n"
    "cpu1 200 0 50 300 60 0 0 20 0 0\n"
    "intr 12345\n";

TEST(CpuLoad, CountsTheCoresThatAreUsedAndNoOthers) {
  const CpuTimes both = cpu_times_of(kStat, 100.0, [](int) { return true; }).value();
  EXPECT_DOUBLE_EQ(both.busy_s, 4.2);
  EXPECT_DOUBLE_EQ(both.idle_s, 6.0);
  EXPECT_DOUBLE_EQ(both.stolen_s, 0.4);
  const CpuTimes second = cpu_times_of(kStat, 100.0, [](int core) { return core == 1; }).value();
  EXPECT_DOUBLE_EQ(second.busy_s, 2.5);
}

TEST(CpuLoad, WhatTheSystemDoesNotTellIsNotMadeUp) {
  const auto any = [](int) { return true; };
  for (const char* text :
       {"", "cpu 1 2 3", "cpu0 1 2 3\n", "cpux 1 2 3 4 5 6 7 8\n", "cpu0 a b\n"}) {
    EXPECT_FALSE(cpu_times_of(text, 100.0, any).has_value()) << text;
  }
}

// Each core is idle, ours, another's or stolen, and the last two are the share of others.
TEST(CpuLoad, TheShareOfOthersIsWhatIsNeitherIdleNorOurs) {
  const CpuTimes before{.idle_s = 1.0, .busy_s = 2.0, .stolen_s = 0.5, .own_s = 1.0};
  for (const double own : {0.0, 1.0, 3.0}) {
    for (const double other : {0.0, 2.0}) {
      for (const double stolen : {0.0, 1.0}) {
        const CpuTimes after{before.idle_s + 4.0, before.busy_s + own + other,
                             before.stolen_s + stolen, before.own_s + own};
        EXPECT_DOUBLE_EQ(share_of_others(before, after),
                         (other + stolen) / (4.0 + own + other + stolen));
      }
    }
  }
  EXPECT_EQ(share_of_others(before, before), 0.0);
}

TEST(CpuLoad, ATeamLosesOnlyTheCoresThatItNeeds) {
  EXPECT_DOUBLE_EQ(share_left(0.41, 2, 2), 0.59);
  EXPECT_DOUBLE_EQ(share_left(0.5, 1, 2), 1.0);
  EXPECT_DOUBLE_EQ(share_left(0.0, 4, 2), 0.5);
  EXPECT_DOUBLE_EQ(share_left(0.3, 0, 2), 1.0);
}

TEST(CpuLoad, OwnWorkIsNotThatOfOthers) {
  const CpuLoad load;
  const std::optional<CpuTimes> before = load.read();
  ASSERT_TRUE(before.has_value());
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  while (std::chrono::steady_clock::now() < end) {
  }
  const std::optional<CpuTimes> after = load.read();
  ASSERT_TRUE(after.has_value());
  EXPECT_GT(after->own_s, before->own_s);
  const double share = share_of_others(*before, *after);
  EXPECT_GE(share, 0.0);
  EXPECT_LE(share, 1.0);
}

}  // namespace
}  // namespace trireme
