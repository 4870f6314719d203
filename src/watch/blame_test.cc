#include "watch/blame.h"

#include <gtest/gtest.h>

#include <vector>

namespace trireme {
namespace {

constexpr int64_t kSilentNs = 5'000'000'000, kBudgetNs = 1'000'000'000, kMostNs = 60'000'000'000;

// A rank that shows nothing new. It waits for `peer` in a call of group 1; -1: it does not wait.
WatchedRank rank(int number, int64_t step, uint64_t calls, int peer = -1, uint64_t call = 1) {
  RankSample sample{.beats = 1, .epoch = 1, .rank = number, .phase = RankPhase::Step, .step = step};
  sample.calls = calls;
  if (peer >= 0) {
    sample.wait_ns = 1;
    sample.wait_peer = peer;
    sample.wait_group = 1;
    sample.wait_sequence = call;
    sample.issued[1] = call;
  }
  return {sample, kSilentNs, kBudgetNs, kMostNs, false};
}

int blamed(const std::vector<WatchedRank>& ranks) {
  const auto blame = find_blamed(ranks);
  return blame ? blame->rank : -1;
}

TEST(Blame, FallsOnTheEndOfAChainOfWaits) {
  EXPECT_EQ(blamed({rank(0, 3, 9, 2), rank(1, 3, 8), rank(2, 3, 9, 1)}), 1);
  EXPECT_EQ(
      find_blamed(std::vector{rank(0, 3, 9, 2), rank(1, 3, 8), rank(2, 3, 9, 1)})->num_waiting, 2);
}

// Of two ranks for which one other waits each, the one that is behind holds up both.
TEST(Blame, FallsOnTheLowestStepAndCall) {
  EXPECT_EQ(blamed({rank(0, 3, 9, 1), rank(1, 3, 8), rank(2, 3, 9, 3), rank(3, 3, 7)}), 3);
  EXPECT_EQ(blamed({rank(0, 3, 9, 1), rank(1, 2, 8), rank(2, 3, 9, 3), rank(3, 3, 7)}), 1);
}

// Rank 0 has made call 5 and waits in call 6, so rank 1 does not wait for anybody in call 5.
TEST(Blame, FallsOnARankThatDoesNotLeaveACompleteCall) {
  EXPECT_EQ(blamed({rank(0, 3, 9, 1, 6), rank(1, 3, 8, 0, 5)}), 1);
}

// Ranks that meet at the beginning of an epoch do not wait in a call yet. The stopped one may be
// new, so that it has no epoch, or a survivor that has not left the old epoch.
TEST(Blame, FallsOnAStoppedRankWhenTheOthersGather) {
  for (const RankPhase gathering : {RankPhase::Start, RankPhase::Compile, RankPhase::Recover}) {
    for (const uint64_t epoch : {0, 1}) {
      WatchedRank stopped = rank(2, 3, 9), other = rank(1, 3, 9);
      stopped.is_stopped = true;
      stopped.sample.epoch = epoch;
      EXPECT_EQ(blamed({other, stopped}), -1);
      other.sample.phase = gathering;
      EXPECT_EQ(blamed({other, stopped}), 2);
      stopped.silent_ns = kBudgetNs;
      EXPECT_EQ(blamed({other, stopped}), -1);
      other.is_stopped = true;
      stopped.silent_ns = kSilentNs;
      EXPECT_EQ(blamed({other, stopped}), -1) << "the whole job was stopped";
    }
  }
}

TEST(Blame, FallsOnNobodyWithinTheBudgetOrWithoutReason) {
  WatchedRank busy = rank(1, 3, 8);
  busy.silent_ns = kBudgetNs;
  EXPECT_EQ(blamed({rank(0, 3, 9, 1), busy}), -1);
  EXPECT_EQ(blamed({rank(0, 3, 9, 7), rank(1, 3, 8)}), -1) << "it waits for a rank of another host";
  EXPECT_EQ(blamed({rank(0, 3, 9, 1, 6), rank(1, 3, 9, 0, 6)}), -1) << "a cycle ends by itself";
  EXPECT_EQ(blamed({}), -1);
  WatchedRank alone = rank(0, 3, 9);
  EXPECT_EQ(blamed({alone}), -1);
  alone.silent_ns = kMostNs + 1;
  EXPECT_EQ(blamed({alone}), 0);
}

}  // namespace
}  // namespace trireme
