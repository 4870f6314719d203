#include "device/core_binding.h"

#include <gtest/gtest.h>

#include <thread>

#include "device/host.h"

namespace trireme {
namespace {

cpu_set_t cores_of_this_thread() {
  cpu_set_t cores;
  EXPECT_EQ(::sched_getaffinity(0, sizeof cores, &cores), 0);
  return cores;
}

TEST(CoreBinding, RanksThatTakeAllCoresShareThemOutAndGiveThemBack) {
  const int num_cores = num_available_cores();
  const cpu_set_t before = cores_of_this_thread();
  cpu_set_t seen;
  CPU_ZERO(&seen);
  for (int rank = 0; rank < num_cores; ++rank) {
    const CoreBinding binding(rank, num_cores, 1);
    cpu_set_t own;
    std::thread([&] { own = cores_of_this_thread(); }).join();  // a thread started by this one
    EXPECT_EQ(CPU_COUNT(&own), 1);
    CPU_OR(&seen, &seen, &own);
  }
  EXPECT_TRUE(CPU_EQUAL(&seen, &before));
  const cpu_set_t after = cores_of_this_thread();
  EXPECT_TRUE(CPU_EQUAL(&after, &before));
}

TEST(CoreBinding, LeavesRanksAloneThatDoNotFillTheMachine) {
  const cpu_set_t before = cores_of_this_thread();
  for (const int num_ranks : {1, num_available_cores() + 1}) {
    const CoreBinding binding(0, num_ranks, 1);
    const cpu_set_t during = cores_of_this_thread();
    EXPECT_TRUE(CPU_EQUAL(&during, &before));
  }
}

}  // namespace
}  // namespace trireme
