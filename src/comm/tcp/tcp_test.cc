#include <fmt/format.h>
#include <gtest/gtest.h>

#include <mutex>
#include <random>

#include "base/allocation_count.h"
#include "comm/collective_check.h"
#include "comm/group_driver.h"
#include "comm/tcp/tcp_fixture.h"

namespace trireme {
namespace {

// Every collective with every algorithm; counts, dtypes, roots and asynchrony are random. The
// traffic must be the predicted one.
std::string check_all(World& world) {
  Group& group = world.group();
  std::mt19937 rng(unsigned(world.size()));
  const int64_t counts[] = {0, 1, 7, 600, 4099, 100003};
  const DType dtypes[] = {DType::F32, DType::BF16, DType::F16, DType::I32, DType::I64};
  for (int c = 0; c <= int(Collective::Barrier); ++c) {
    const auto collective = Collective(c);
    std::vector<Algorithm> algorithms = algorithms_of(collective, world.size());
    algorithms.insert(algorithms.end(), {Algorithm::Auto, Algorithm::Canonical});
    if (group.shares_memory()) algorithms.push_back(Algorithm::Shared);
    for (const Algorithm algorithm : algorithms) {
      const CollectiveCase k{.collective = collective,
                             .algorithm = algorithm,
                             .dtype = dtypes[rng() % 5],
                             .op = ReduceOp(rng() % 4),
                             .count = counts[rng() % 6],
                             .root = int(rng() % unsigned(world.size())),
                             .integers = rng() % 3 != 0,
                             .asynchronous = rng() % 3 == 0,
                             .seed = rng()};
      const bool visible = rng() % 2 == 0;
      const Traffic before = group.traffic();
      const std::string wrong = check_collective(world, group, k, visible);
      if (!wrong.empty()) return wrong;
      CollectiveRun same(world, group, k, visible);
      Traffic expected = before;
      expected += group.driver().predict(same.args());
      if (group.traffic().sent_bytes != expected.sent_bytes ||
          group.traffic().received_messages != expected.received_messages) {
        return "the traffic of " + to_string(k) + " is not the predicted one";
      }
    }
  }
  return "";
}

// Runs `check` on every rank; returns the first text that is not empty.
std::string first_wrong(int size, int ranks_per_node,
                        const std::function<std::string(World&)>& check) {
  std::mutex mutex;
  std::string first;
  run_tcp_ranks(size, {.timeout_s = 30, .nodes = ranks_per_node}, [&](World& world) {
    const std::string wrong = check(world);
    const std::lock_guard lock(mutex);
    if (first.empty()) first = wrong;
  });
  return first;
}

TEST(Tcp, EveryCollectiveIsRightWithinAHostBetweenHostsAndOnBoth) {
  for (const auto& [size, ranks_per_node] :
       std::vector<std::pair<int, int>>{{1, 0}, {2, 0}, {2, 1}, {3, 1}, {4, 2}, {5, 3}}) {
    EXPECT_EQ(first_wrong(size, ranks_per_node, check_all), "")
        << size << " ranks, " << ranks_per_node << " on a node";
  }
}

TEST(Tcp, UnequalCountsAreRight) {
  for (const int ranks_per_node : {0, 1}) {
    const auto check = [](World& world) {
      for (const int64_t count : {0, 40, 5000, 300000}) {
        std::string wrong = check_collective(
            world, world.group(),
            {.collective = Collective::AllToAll, .count = count, .uneven = true, .seed = 5});
        if (!wrong.empty()) return wrong;
      }
      return std::string();
    };
    EXPECT_EQ(first_wrong(3, ranks_per_node, check), "") << ranks_per_node;
  }
}

TensorRef one_word(int64_t& word) { return {&word, DType::I64, Shape{1}}; }

// A receiver that takes messages in another order than that in which they were sent, of several
// groups, long and short, and more than may wait for it.
std::string check_order(World& world) {
  constexpr int kMessages = 80;
  const int next = (world.rank() + 1) % world.size();
  const int previous = (world.rank() + world.size() - 1) % world.size();
  const auto twin = world.group().split(0, world.rank(), "twin");
  std::vector<int64_t> sent(kMessages), got(kMessages);
  std::vector<int64_t> long_sent(100'000, world.rank()), long_got(100'000);
  const TensorRef long_out{long_sent.data(), DType::I64, Shape{100'000}};
  const TensorRef long_in{long_got.data(), DType::I64, Shape{100'000}};
  std::vector<Work> works;
  works.push_back(world.group().start_send(long_out, next, kMessages));
  for (int i = 0; i < kMessages; ++i) {
    sent[size_t(i)] = 1000 * world.rank() + i;
    Group& group = i % 2 == 0 ? world.group() : *twin;
    works.push_back(group.start_send(one_word(sent[size_t(i)]), next, i % 4));
  }
  for (int lane = 3; lane >= 0; --lane) {
    for (int i = lane; i < kMessages; i += 4) {
      Group& group = i % 2 == 0 ? world.group() : *twin;
      works.push_back(group.start_recv(one_word(got[size_t(i)]), previous, lane));
    }
  }
  works.push_back(world.group().start_recv(long_in, previous, kMessages));
  int64_t sum = 1;
  world.group().all_reduce(one_word(sum), ReduceOp::Sum, Algorithm::Ring);
  for (Work& work : works) work.wait();
  for (int i = 0; i < kMessages; ++i) {
    if (got[size_t(i)] != 1000 * previous + i) return fmt::format("message {} went elsewhere", i);
  }
  const bool is_whole = long_got == std::vector<int64_t>(100'000, previous);
  return is_whole && sum == world.size() ? "" : "the long message or the sum is wrong";
}

TEST(Tcp, MessagesAreTakenByGroupAndTagInAnyOrder) {
  for (const int ranks_per_node : {0, 1}) {
    EXPECT_EQ(first_wrong(3, ranks_per_node, check_order), "") << ranks_per_node;
  }
}

#ifdef TRIREME_COUNTS_ALLOCATIONS
TEST(Tcp, SteadyCallsAllocateNothing) {
  for (const int ranks_per_node : {0, 1}) {
    int64_t allocated = -1;
    run_tcp_ranks(2, {.timeout_s = 30, .nodes = ranks_per_node}, [&](World& world) {
      Group& group = world.group();
      std::vector<float> long_x(300'000), short_x(10);
      const TensorRef long_ref{long_x.data(), DType::F32, Shape{300'000}};
      const TensorRef short_ref{short_x.data(), DType::F32, Shape{10}};
      const int other = 1 - world.rank();
      const auto step = [&] {
        for (const TensorRef x : {short_ref, long_ref}) {
          group.all_reduce(x, ReduceOp::Max, Algorithm::Ring);
          group.all_reduce(x, ReduceOp::Max);
          Work work = group.start({.in = x, .out = x, .op = ReduceOp::Max});
          work.wait();
          Work sent = group.start_send(x, other);
          group.recv(x, other);
          sent.wait();
        }
      };
      for (int i = 0; i < 3; ++i) step();
      group.barrier();
      const int64_t before = num_allocations;
      for (int i = 0; i < 20; ++i) step();
      group.barrier();
      if (world.rank() == 0) allocated = num_allocations - before;
      group.barrier();
    });
    EXPECT_EQ(allocated, 0) << ranks_per_node;
  }
}
#endif

}  // namespace
}  // namespace trireme
