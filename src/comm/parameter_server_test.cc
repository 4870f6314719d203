#include "comm/parameter_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "comm/world.h"

namespace trireme {
namespace {

constexpr float kRate = 0.1f;

void descend(std::span<float> parameters, const PushedGradient& pushed) {
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i] -= kRate * pushed.gradient[i];
}

// A gradient that depends on the parameters, so that stale parameters change the result.
float gradient_of(float parameter, int64_t i) { return parameter - 0.25f * float(i % 7); }

// Serves until every worker has left. Returns the number of updates.
int64_t serve(Group& group, const ParameterServerOptions& options, std::span<float> parameters) {
  return ParameterServer(group, options, parameters, descend).serve(INT64_MAX);
}

// With one worker the run is serial and has the same bits for every number of servers.
TEST(ParameterServer, OneWorkerReadsItsOwnPushes) {
  constexpr int64_t kElements = 101;
  constexpr int kSteps = 8;
  for (int servers : {1, 2, 3}) {
    std::vector<float> serial(kElements, 1.0f);
    for (int step = 0; step < kSteps; ++step) {
      for (int64_t i = 0; i < kElements; ++i) {
        serial[size_t(i)] -= kRate * gradient_of(serial[size_t(i)], i);
      }
    }
    const ParameterServerOptions options{.num_servers = servers, .num_elements = kElements};
    run_ranks(servers + 1, {.timeout_s = 20}, [&](World& world) {
      if (world.rank() < servers) {
        std::vector<float> part(size_t(balanced_count(kElements, servers, world.rank())), 1.0f);
        EXPECT_EQ(serve(world.group(), options, part), kSteps);
        const int64_t begin = balanced_begin(kElements, servers, world.rank());
        for (size_t i = 0; i < part.size(); ++i) EXPECT_EQ(part[i], serial[size_t(begin) + i]);
        return;
      }
      ParameterWorker worker(world.group(), options);
      std::vector<float> parameters(kElements);
      std::vector<float> gradient(kElements);
      for (int step = 0; step < kSteps; ++step) {
        EXPECT_EQ(worker.pull(parameters), step);
        for (int64_t i = 0; i < kElements; ++i) {
          gradient[size_t(i)] = gradient_of(parameters[size_t(i)], i);
        }
        worker.push(gradient);
      }
      EXPECT_EQ(worker.pull(parameters), kSteps);
      EXPECT_EQ(parameters, serial);
    });
  }
}

TEST(ParameterServer, NoWorkerReadsFartherAheadThanTheStalenessAllows) {
  constexpr int kSteps = 30;
  constexpr int kWorkers = 3;
  for (int staleness : {1, 3}) {
    const ParameterServerOptions options{
        .num_servers = 2, .num_elements = 40, .staleness = staleness};
    std::array<std::atomic<int>, kWorkers> pushed{};
    int widest = 0;
    std::mutex mutex;
    run_ranks(2 + kWorkers, {.timeout_s = 20}, [&](World& world) {
      if (world.rank() < 2) {
        std::vector<float> part(20, 0.0f);
        EXPECT_EQ(serve(world.group(), options, part), kSteps * kWorkers);
        // Every push is applied exactly once.
        for (float x : part) EXPECT_NEAR(x, -kRate * kSteps * kWorkers, 1e-4);
        return;
      }
      const size_t me = size_t(world.rank() - 2);
      ParameterWorker worker(world.group(), options);
      std::vector<float> parameters(40);
      const std::vector<float> ones(40, 1.0f);
      for (int step = 0; step < kSteps; ++step) {
        worker.pull(parameters);
        // When a pull returns, the slowest worker has sent at least step - staleness pushes.
        for (const auto& count : pushed) {
          const std::lock_guard lock(mutex);
          widest = std::max(widest, step - count.load());
        }
        if (me == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
        ++pushed[me];
        worker.push(ones);
      }
    });
    EXPECT_LE(widest, staleness);
  }
}

// A worker that pulls after the server has finished is dismissed, and its pushes change nothing.
TEST(ParameterServer, ServesAsManyUpdatesAsAskedForAndSendsTheWorkersAway) {
  for (int staleness : {1, 2}) {
    const ParameterServerOptions options{
        .num_servers = 1, .num_elements = 16, .staleness = staleness};
    run_ranks(3, {.timeout_s = 20}, [&](World& world) {
      if (world.rank() == 0) {
        std::vector<float> part(16, 0.0f);
        double received_tokens = 0;
        ParameterServer server(world.group(), options, part,
                               [&](std::span<float> x, const PushedGradient& pushed) {
                                 descend(x, pushed);
                                 received_tokens += pushed.values[1];
                               });
        for (int round = 0; round < 5; ++round) EXPECT_EQ(server.serve(2), 2);
        const std::vector<float> last = part;
        server.dismiss();
        EXPECT_EQ(part, last);
        EXPECT_EQ(received_tokens, 10 * 3.0);
        return;
      }
      ParameterWorker worker(world.group(), options);
      std::vector<float> parameters(16);
      int pulls = 0;
      while (worker.pull(parameters) != ParameterWorker::kDismissed) {
        ASSERT_LT(++pulls, 100);
        worker.push(std::vector<float>(16, 1.0f), {0.5, 3.0});
      }
    });
  }
}

TEST(ParameterServer, AServerThatHearsNothingFailsAtItsDeadline) {
  const ParameterServerOptions options{.num_servers = 1, .num_elements = 10, .timeout_s = 0.2};
  try {
    run_ranks(2, {.timeout_s = 20}, [&](World& world) {
      std::vector<float> x(10);
      if (world.rank() == 0) serve(world.group(), options, x);
      if (world.rank() == 1) world.group().recv({x.data(), DType::F32, Shape{10}}, 0, 7);
    });
    FAIL();
  } catch (const RankError& error) {
    EXPECT_NE(std::string(error.what()).find("parameter server 0"), std::string::npos);
  }
}

TEST(ParameterServer, AWorkerThatThrowsEndsTheServers) {
  const ParameterServerOptions options{.num_servers = 1, .num_elements = 10};
  try {
    run_ranks(3, {.timeout_s = 20}, [&](World& world) {
      std::vector<float> x(10);
      if (world.rank() == 0) {
        serve(world.group(), options, x);
        return;
      }
      ParameterWorker worker(world.group(), options);
      worker.pull(x);
      if (world.rank() == 2) throw DeviceError("gone");
      for (int i = 0; i < 1000; ++i) {
        worker.push(x);
        worker.pull(x);
      }
    });
    FAIL();
  } catch (const RankError& error) {
    EXPECT_STREQ(error.what(), "rank 2: gone");
  }
}

}  // namespace
}  // namespace trireme
