#include "device/help_balance.h"

#include <gtest/gtest.h>

#include <vector>

namespace trireme {
namespace {

constexpr int64_t kJobNs = 100'000;

// Jobs of 0.1 ms until `end_ns`. Returns how long the caller worked alone.
int64_t alone_ns(HelpBalance& help, int64_t& now_ns, int64_t end_ns, int64_t saved_ns,
                 int64_t waited_ns, int64_t worked_ns = 0) {
  int64_t alone = 0;
  for (; now_ns < end_ns; now_ns += kJobNs) {
    if (help.pays(now_ns)) {
      help.note(saved_ns, waited_ns, worked_ns, now_ns);
    } else {
      alone += kJobNs;
    }
  }
  return alone;
}

TEST(HelpBalance, HelpThatPaysIsAlwaysTaken) {
  for (const int64_t waited_ns : {0, 1000, 20'000, 33'000}) {
    HelpBalance help;
    int64_t now_ns = 0;
    EXPECT_EQ(alone_ns(help, now_ns, 1'000'000'000, 50'000, waited_ns), 0) << waited_ns;
  }
}

TEST(HelpBalance, AFewJobsWhoseWorkersWakeUpAreNoReasonToWorkAlone) {
  HelpBalance help;
  for (int64_t now_ns = 0; now_ns < 1'000'000'000; now_ns += 8'000'000) {
    EXPECT_TRUE(help.pays(now_ns)) << now_ns;
    help.note(0, kJobNs, 0, now_ns);
  }
}

TEST(HelpBalance, HelpThatCostsIsTriedEverLessOften) {
  HelpBalance help;
  int64_t now_ns = 0;
  EXPECT_GT(alone_ns(help, now_ns, 10'000'000'000, 0, kJobNs), 9'500'000'000);
  EXPECT_GT(alone_ns(help, now_ns, 20'000'000'000, 10'000, 50'000), 9'400'000'000);
}

TEST(HelpBalance, HelpThatSavesLessThanSharingCostsIsNotTaken) {
  HelpBalance help;
  int64_t now_ns = 0;
  EXPECT_EQ(alone_ns(help, now_ns, 1'000'000'000, 20'000, 4000, 80'000), 0);
  EXPECT_GT(alone_ns(help, now_ns, 10'000'000'000, 20'000, 8000, 80'000), 8'500'000'000);
}

// Otherwise one lucky time would be followed by many costly ones.
TEST(HelpBalance, OneTimeThatPaysDoesNotMakeItTrusted) {
  HelpBalance help;
  int64_t now_ns = 0;
  alone_ns(help, now_ns, 10'000'000'000, 0, kJobNs);
  while (!help.pays(now_ns)) now_ns += kJobNs;
  alone_ns(help, now_ns, now_ns + 17'000'000, 50'000, 0);
  EXPECT_FALSE(help.is_trusted());
  EXPECT_GT(alone_ns(help, now_ns, now_ns + 300'000'000, 0, kJobNs), 250'000'000);
}

TEST(HelpBalance, HelpThatPaysAgainIsTakenWithinHalfASecond) {
  HelpBalance help;
  int64_t now_ns = 0;
  alone_ns(help, now_ns, 10'000'000'000, 0, kJobNs);
  EXPECT_LE(alone_ns(help, now_ns, 20'000'000'000, 50'000, 1000), 512'000'000);
  EXPECT_LE(alone_ns(help, now_ns, 20'018'000'000, 0, kJobNs), 16'000'000 + kJobNs);
}

}  // namespace
}  // namespace trireme
