#include "agent/process_stat.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace trireme {
namespace {

TEST(ProcessStat, SeesStopsWhateverTheNameOfTheProcess) {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_NAME, "a) T 1 (b");
    raise(SIGSTOP);
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, WUNTRACED), child);
  const auto stopped = stat_of_process(child);
  ASSERT_TRUE(stopped);
  EXPECT_TRUE(stopped->is_stopped());
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(stat_of_process(child)) << "it has ended";

  const auto own = stat_of_process(getpid());
  ASSERT_TRUE(own);
  EXPECT_FALSE(own->is_stopped());
  EXPECT_GT(own->start, 0u);
  EXPECT_LE(own->start, stopped->start);
}

}  // namespace
}  // namespace trireme
