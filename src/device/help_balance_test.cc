#include "device/help_balance.h"

#include <gtest/gtest.h>

#include <vector>

namespace trireme {
namespace {

constexpr int64_t kJobNs = 100'000;

// Jobs of 0.1 ms until `end_ns`. Returns how long the caller worked alone.
int64_t alone_ns(HelpBalance& help, int64_t& now_ns, int64_t end_ns, const JobTimes& job) {
  int64_t alone = 0;
  for (; now_ns < end_ns; now_ns += kJobNs) {
    if (help.pays(now_ns)) {
      help.note(job, now_ns);
    } else {
      alone += kJobNs;
    }
  }
  return alone;
}

constexpr JobTimes kCosts{.lost_ns = kJobNs};

TEST(HelpBalance, HelpThatPaysIsAlwaysTaken) {
  for (const int64_t lost_ns : {0, 1000, 20'000, 33'000}) {
    HelpBalance help;
    int64_t now_ns = 0;
    EXPECT_EQ(alone_ns(help, now_ns, 1'000'000'000, {.saved_ns = 50'000, .lost_ns = lost_ns}), 0)
        << lost_ns;
  }
}

TEST(HelpBalance, AFewJobsWhoseWorkersWakeUpAreNoReasonToWorkAlone) {
  HelpBalance help;
  for (int64_t now_ns = 0; now_ns < 1'000'000'000; now_ns += 8'000'000) {
    EXPECT_TRUE(help.pays(now_ns)) << now_ns;
    help.note(kCosts, now_ns);
  }
}

TEST(HelpBalance, HelpThatCostsIsTriedEverLessOften) {
  HelpBalance help;
  int64_t now_ns = 0;
  EXPECT_GT(alone_ns(help, now_ns, 10'000'000'000, kCosts), 9'500'000'000);
  EXPECT_GT(alone_ns(help, now_ns, 20'000'000'000, {.saved_ns = 10'000, .lost_ns = 50'000}),
            9'400'000'000);
}

// An eighth of the caller's work is the price of sharing data between cores: 10 us here.
TEST(HelpBalance, HelpHasToPayForSharedData) {
  const auto alone_of = [](int64_t saved_ns, int64_t lost_ns) {
    HelpBalance help;
    int64_t now_ns = 0;
    return alone_ns(help, now_ns, 10'000'000'000,
                    {.worked_ns = 80'000, .saved_ns = saved_ns, .lost_ns = lost_ns});
  };
  EXPECT_EQ(alone_of(40'000, 10'000), 0);
  EXPECT_GT(alone_of(20'000, 8000), 8'500'000'000);
  EXPECT_GT(alone_of(3000, 0), 8'500'000'000);  // nothing is lost, but sharing costs more
}

// Otherwise one lucky time would be followed by many costly ones.
TEST(HelpBalance, TrustComesBackInSteps) {
  HelpBalance help;
  int64_t now_ns = 0;
  alone_ns(help, now_ns, 10'000'000'000, kCosts);
  while (!help.pays(now_ns)) now_ns += kJobNs;
  int periods = 0;
  for (; !help.is_trusted(); ++periods) {
    alone_ns(help, now_ns, now_ns + 16'000'000, {.saved_ns = 50'000});
  }
  EXPECT_GE(periods, 5);  // 512 ms, halved until it is 16 ms
  EXPECT_LE(periods, 6);
}

TEST(HelpBalance, HelpThatPaysAgainIsTakenWithinHalfASecond) {
  HelpBalance help;
  int64_t now_ns = 0;
  alone_ns(help, now_ns, 10'000'000'000, kCosts);
  EXPECT_LE(alone_ns(help, now_ns, 20'000'000'000, {.saved_ns = 50'000, .lost_ns = 1000}),
            512'000'000);
  EXPECT_LE(alone_ns(help, now_ns, 20'018'000'000, kCosts), 16'000'000 + kJobNs);
}

}  // namespace
}  // namespace trireme
