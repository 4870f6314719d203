#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include "comm/world.h"

namespace trireme {
namespace {

// With 0 computing threads, communication threads have cores of their own on hosts with a core for
// each rank; with 1000 they have none.
constexpr std::array<int, 2> kThreads = {0, 1000};

TensorRef ref(std::vector<float>& x) { return {x.data(), DType::F32, Shape{int64_t(x.size())}}; }

TEST(CallerDrives, ResultsAreThoseOfTheCommunicationThread) {
  for (const int threads : kThreads) {
    run_ranks(4, {.threads_per_rank = threads}, [](World& world) {
      Group& all = world.group();
      const std::unique_ptr<Group> pair = all.split(world.rank() / 2, world.rank(), "pair");
      for (int round = 0; round < 50; ++round) {
        std::vector<float> sum(1000, float(world.rank() + round)), half(10, float(world.rank()));
        std::vector<float> sent(5000, float(world.rank())), got(5000, -1.0f);
        Work of_pair = pair->start({.collective = Collective::AllReduce,
                                    .in = ref(half),
                                    .out = ref(half),
                                    .op = ReduceOp::Sum});
        Work of_all = all.start({.collective = Collective::AllReduce,
                                 .in = ref(sum),
                                 .out = ref(sum),
                                 .op = ReduceOp::Sum});
        const int peer = world.rank() ^ 3;
        Work send = all.start_send(ref(sent), peer, round),
             recv = all.start_recv(ref(got), peer, round);
        // Ranks wait in different orders, and a rank makes a blocking call in between.
        if (world.rank() % 2 == 0) of_all.wait();
        recv.wait();
        all.barrier();
        of_pair.wait();
        of_all.wait();
        send.wait();
        EXPECT_EQ(got.back(), float(peer));
        EXPECT_EQ(sum.front(), float(6 + 4 * round));
        EXPECT_EQ(half.back(), world.rank() < 2 ? 1.0f : 5.0f);
      }
    });
  }
}

TEST(CallerDrives, ARankThatComputesDoesNotHoldUpTheOthers) {
  using Clock = std::chrono::steady_clock;
  for (const int threads : kThreads) {
    Clock::time_point ended, computed;
    run_ranks(2, {.threads_per_rank = threads}, [&](World& world) {
      Group& group = world.group();
      std::vector<float> x(100'000, 1.0f);
      group.barrier();
      Work work = group.start(
          {.collective = Collective::AllReduce, .in = ref(x), .out = ref(x), .op = ReduceOp::Sum});
      if (world.rank() == 0) {
        work.wait();
        ended = Clock::now();
      } else {
        const Clock::time_point end = Clock::now() + std::chrono::milliseconds(300);
        while (Clock::now() < end) {
        }
        computed = Clock::now();
        work.wait();
      }
      EXPECT_EQ(x.back(), 2.0f);
    });
    EXPECT_LT(ended, computed) << threads;
  }
}

}  // namespace
}  // namespace trireme
