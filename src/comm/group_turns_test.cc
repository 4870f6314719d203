#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "comm/tcp/tcp_fixture.h"
#include "device/turns.h"

namespace trireme {
namespace {

// This is what one rank has seen. In `order`, the pieces 0 and 1 write their number when they
// begin, a or b when their first call has returned, and A or B when the second one has.
struct Seen {
  std::string order;
  std::vector<int64_t> sums;  // those of the first piece, then those of the second
};

// Each piece makes a call that joins the next, and then one that passes the turn. Rank 1 makes its
// first call when rank 0 has gone on behind its own.
Seen take_turns_with_joined_calls(World& world, std::atomic<bool>& has_gone_on) {
  constexpr int64_t kLong = 100'000;
  Group& group = world.group();
  Turns turns;
  group.take_turns(turns);
  Seen seen;
  std::vector<int64_t> few[2], rows[2];
  const auto piece = [&](int side) {
    const auto sum = [&](std::vector<int64_t>& x, int64_t count, bool joins_next) {
      x.assign(size_t(count), 1 + side + 10 * count);
      const TensorRef x_ref{x.data(), DType::I64, Shape{count}};
      group.run({.in = x_ref, .out = x_ref, .joins_next = joins_next});
      seen.order += char((joins_next ? 'a' : 'A') + side);
    };
    seen.order += char('0' + side);
    const Deadline deadline = Deadline::after(20);
    while (world.rank() == 1 && !has_gone_on && deadline.left_ms() > 0) std::this_thread::yield();
    sum(few[side], 3, true);
    if (world.rank() == 0) has_gone_on = true;
    sum(rows[side], kLong, false);
  };
  turns.run([&] { piece(0); }, [&] { piece(1); });
  for (const auto& x : {few[0], rows[0], few[1], rows[1]}) {
    seen.sums.insert(seen.sums.end(), {x.front(), x.back()});
  }
  group.barrier();
  return seen;
}

TEST(GroupTurns, ACallThatJoinsTheNextIsThereWithItAndPassesNoTurn) {
  for (const int ranks_per_node : {0, 1}) {
    std::vector<Seen> seen(2);
    std::atomic<bool> has_gone_on{false};
    run_tcp_ranks(2, {.timeout_s = 10, .nodes = ranks_per_node}, [&](World& world) {
      seen[size_t(world.rank())] = take_turns_with_joined_calls(world, has_gone_on);
    });
    const std::vector<int64_t> sums = {62, 62, 2'000'002, 2'000'002, 64, 64, 2'000'004, 2'000'004};
    for (const Seen& rank : seen) {
      EXPECT_EQ(rank.order, "0a1bAB") << ranks_per_node;
      EXPECT_EQ(rank.sums, sums) << ranks_per_node;
    }
  }
}

}  // namespace
}  // namespace trireme
