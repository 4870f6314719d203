#include "device/core_binding.h"

#include <gtest/gtest.h>

#include <semaphore>
#include <thread>
#include <vector>

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

cpu_set_t cores_of(std::thread& thread) {
  cpu_set_t cores;
  EXPECT_EQ(::pthread_getaffinity_np(thread.native_handle(), sizeof cores, &cores), 0);
  return cores;
}

// Each worker of a team that takes all cores has one of its own until it is released. A team that
// leaves cores free is left alone, and so is the caller.
TEST(CoreBinding, WorkersOfATeamForAllCoresHaveCoresOfTheirOwn) {
  const int num_cores = num_available_cores();
  const cpu_set_t before = cores_of_this_thread();
  std::binary_semaphore ends{0};
  for (const int num_threads : {num_cores, num_cores + 1}) {
    std::vector<std::thread> workers;
    for (int thread = 1; thread < num_threads; ++thread) {
      workers.emplace_back([&] {
        ends.acquire();
        ends.release();
      });
    }
    for (const bool binds : {true, false}) {
      bind_workers(workers, binds);
      cpu_set_t seen;
      CPU_ZERO(&seen);
      for (std::thread& worker : workers) {
        const cpu_set_t cores = cores_of(worker);
        const bool is_bound = binds && num_threads == num_cores;
        EXPECT_EQ(CPU_COUNT(&cores), is_bound ? 1 : num_cores);
        CPU_OR(&seen, &seen, &cores);
      }
      if (binds && num_threads == num_cores) {
        EXPECT_EQ(CPU_COUNT(&seen), num_cores - 1);
      }
    }
    ends.release();
    for (std::thread& worker : workers) worker.join();
    ends.acquire();
  }
  const cpu_set_t after = cores_of_this_thread();
  EXPECT_TRUE(CPU_EQUAL(&after, &before));
}

}  // namespace
}  // namespace trireme
