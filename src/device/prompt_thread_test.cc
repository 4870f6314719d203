#include "device/prompt_thread.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <thread>

namespace trireme {
namespace {

TEST(PromptThread, KeepsPolicyAndPriorityOfItsThreadAndOfTheOthers) {
  const int policy = ::sched_getscheduler(0), nice = ::getpriority(PRIO_PROCESS, 0);
  std::thread([&] {
    ask_for_short_turns();
    EXPECT_EQ(::sched_getscheduler(0), policy);
    EXPECT_EQ(::getpriority(PRIO_PROCESS, 0), nice);
  }).join();
  EXPECT_EQ(::sched_getscheduler(0), policy);
}

}  // namespace
}  // namespace trireme
