#include "agent/own_host.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <thread>

namespace trireme {
namespace {

// The news of a host until one is `last`, at most for some seconds.
std::vector<ProcessNews> news_until(OwnHost& host, ProcessNews::Kind last, double seconds) {
  std::vector<ProcessNews> all;
  const Deadline deadline = Deadline::after(seconds);
  while (deadline.left_ms() > 0) {
    for (ProcessNews& news : host.take_news()) {
      all.push_back(std::move(news));
      if (all.back().kind == last) return all;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return all;
}

// The process of a rank is this program with other arguments.
TEST(OwnHost, DISABLED_ARankThatNeverEnds) { std::this_thread::sleep_for(std::chrono::minutes(1)); }

// The leader blames by the number of a process, which may have ended in the meantime.
TEST(OwnHost, KillsTheProcessThatOtherHostsBlameAndNoOther) {
  const auto page = SharedJobPage::make();
  ASSERT_TRUE(page.ok());
  sigset_t mask;
  sigemptyset(&mask);
  OwnHost host("a",
               {"agent_test", "--gtest_also_run_disabled_tests",
                "--gtest_filter=OwnHost.DISABLED_ARankThatNeverEnds"},
               *page, mask);
  ASSERT_TRUE(host.start(1, {.rendezvous = "127.0.0.1:1", .size = 1}, 1).ok());
  host.blame(7, "there is no such process");
  const std::vector<ProcessNews> before = news_until(host, ProcessNews::Kind::Ended, 1.0);
  ASSERT_EQ(before.size(), 1u);
  EXPECT_EQ(before.front().kind, ProcessNews::Kind::Started);
  host.blame(1, "it is in no call");
  const std::vector<ProcessNews> after = news_until(host, ProcessNews::Kind::Ended, 10.0);
  ASSERT_GE(after.size(), 2u);
  EXPECT_EQ(after.front().report.kind, RankReport::Kind::Hangs);
  EXPECT_STREQ(after.front().report.text, "it is in no call");
  EXPECT_EQ(after.back().kind, ProcessNews::Kind::Ended);
  EXPECT_EQ(after.back().process, 1);
  EXPECT_EQ(WTERMSIG(after.back().status), SIGKILL);
}

}  // namespace
}  // namespace trireme
