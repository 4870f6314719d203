#include "comm/process_watch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <thread>

namespace trireme {
namespace {

// Waits for the abort, if one is expected: the time limit of the test is that of the wait.
TEST(ProcessWatch, AbortsAllRanksIfAProcessEndsBeforeItsRankHasLeft) {
  for (const bool has_left : {false, true}) {
    const auto header = std::make_unique<FabricHeader>();
    const auto first = std::make_unique<RankCell>(), second = std::make_unique<RankCell>();
    Fabric fabric(*header, {first.get(), second.get()});
    const pid_t child = ::fork();
    if (child == 0) {
      ::pause();
      ::_exit(0);
    }
    second->pid.store(child);
    const int fd = int(::syscall(SYS_pidfd_open, child, 0));
    ASSERT_GE(fd, 0);
    {
      const ProcessWatch watch(fabric, {-1, fd});
      if (has_left) fabric.leave(1);
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
      while (!has_left && !fabric.aborted()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    ::close(fd);
    EXPECT_EQ(fabric.aborted(), !has_left);
    const std::string cause = fabric.cause();
    EXPECT_EQ(cause.starts_with("rank 1 has died: its process"), !has_left) << cause;
  }
}

}  // namespace
}  // namespace trireme
