#include "watch/watchdog.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "watch/simulated_ranks.h"

namespace trireme {
namespace {

using Fault = SimulatedRanks::Fault;

constexpr int64_t kLookNs = 10'000'000;
constexpr const char* kFaultNames[] = {"none",        "spin",    "deadlock",
                                       "blocked I/O", "stopped", "slow"};

std::optional<RankVerdict> look_for(SimulatedRanks& ranks, Watchdog& dog, double seconds) {
  const int64_t end_ns = ranks.now_ns() + int64_t(seconds * 1e9);
  while (ranks.now_ns() < end_ns) {
    ranks.advance(kLookNs);
    if (const auto verdict = dog.look(ranks.now_ns(), ranks.observed())) return verdict;
  }
  return std::nullopt;
}

// Layouts of 2 to 8 ranks.
constexpr int kLayouts[][3] = {{1, 2, 1}, {2, 1, 1}, {1, 1, 2}, {1, 3, 1}, {2, 2, 1}, {1, 1, 4},
                               {1, 5, 1}, {2, 1, 2}, {1, 2, 3}, {1, 7, 1}, {2, 2, 2}, {1, 4, 2}};

// The course of events, the moment, the rank and the kind of the hang are random.
TEST(Watchdog, BlamesTheRankThatHangsInNearlyAllOfThreeHundredHangs) {
  constexpr int kHangs = 360;
  int right = 0, missed = 0;
  double longest_s = 0.0;
  for (int seed = 0; seed < kHangs; ++seed) {
    std::mt19937_64 random{uint64_t(seed)};
    const auto& layout = kLayouts[size_t(seed) % std::size(kLayouts)];
    SimulatedRanks ranks({.tp = layout[0],
                          .dp = layout[1],
                          .pp = layout[2],
                          .step_s = 0.01 + 0.04 * double(random() % 5),
                          .stalls = 0.01,
                          .most_stall_s = 0.2,
                          .seed = random()});
    Watchdog dog;
    const double before_s = 4.0 + double(random() % 2000) * 1e-3;
    ASSERT_FALSE(look_for(ranks, dog, before_s)) << "seed " << seed << ": a false alarm";
    const auto fault = static_cast<Fault>(1 + random() % 4);
    const int culprit = int(random() % uint64_t(ranks.size()));
    ranks.inject(fault, culprit);
    const int64_t injected_ns = ranks.now_ns();
    const std::optional<RankVerdict> verdict = look_for(ranks, dog, 20.0);
    missed += verdict ? 0 : 1;
    const bool is_right = verdict && verdict->blame.rank == culprit;
    right += is_right ? 1 : 0;
    if (is_right) longest_s = std::max(longest_s, double(ranks.now_ns() - injected_ns) * 1e-9);
    if (!is_right) {
      std::printf("seed %d: %s of rank %d of %d: %s\n", seed, kFaultNames[int(fault)], culprit,
                  ranks.size(),
                  verdict
                      ? fmt::format("rank {} {}", verdict->blame.rank, verdict->blame.why).c_str()
                      : "not noticed");
    }
  }
  std::printf("%d of %d hangs blamed right, %d not noticed, the slowest after %.2f s\n", right,
              kHangs, missed, longest_s);
  EXPECT_GE(right, kHangs * 99 / 100);
}

// Now and then, ranks lose their cores for up to three seconds.
TEST(Watchdog, RaisesNoFalseAlarmInTenThousandStepsOnALoadedHost) {
  SimulatedRanks ranks(
      {.tp = 2, .dp = 2, .pp = 2, .step_s = 0.02, .stalls = 5e-4, .most_stall_s = 3.0, .seed = 5});
  Watchdog dog;
  while (ranks.steps_of(0) < 10'000) {
    ranks.advance(kLookNs);
    const auto verdict = dog.look(ranks.now_ns(), ranks.observed());
    ASSERT_FALSE(verdict) << "after " << ranks.steps_of(0) << " steps: rank " << verdict->blame.rank
                          << " " << verdict->blame.why;
  }
}

// The watchdog stands still with the ranks.
TEST(Watchdog, BlamesNobodyAfterTheHostStoodStill) {
  SimulatedRanks ranks({.dp = 3, .step_s = 0.5, .seed = 4});
  Watchdog dog;
  for (int minute = 0; minute < 20; ++minute) {
    ASSERT_FALSE(look_for(ranks, dog, 5.0 + 0.037 * minute)) << "after " << minute << " pauses";
    ranks.pause(int64_t{60'000'000'000});
  }
}

TEST(Watchdog, ReportsASlowRankAndKillsNone) {
  for (const auto& layout : kLayouts) {
    SimulatedRanks ranks(
        {.tp = layout[0], .dp = layout[1], .pp = layout[2], .step_s = 0.03, .seed = 11});
    const int per_stage = layout[0] * layout[1];
    Watchdog dog;
    ASSERT_FALSE(look_for(ranks, dog, 3.0));
    EXPECT_TRUE(dog.take_slow().empty()) << "ranks of the same speed";
    const int culprit = ranks.size() - 1;
    ranks.inject(Fault::Slow, culprit);
    EXPECT_FALSE(look_for(ranks, dog, 12.0)) << "a slow rank must not be killed";
    const std::vector<SlowRank> slow = dog.take_slow();
    if (per_stage == 1) {  // a stage of one rank has nobody to be compared with
      EXPECT_TRUE(slow.empty());
      continue;
    }
    ASSERT_EQ(slow.size(), 1u) << ranks.size() << " ranks";
    EXPECT_EQ(slow[0].rank, culprit);
    EXPECT_NEAR(slow[0].ratio, 2.0, 0.5);
  }
}

// A job that was stopped as a whole goes on when it is continued.
TEST(Watchdog, BlamesNobodyIfAllRanksAreStopped) {
  SimulatedRanks ranks({.dp = 4, .seed = 2});
  Watchdog dog;
  ASSERT_FALSE(look_for(ranks, dog, 3.0));
  for (int rank = 0; rank < ranks.size(); ++rank) ranks.inject(Fault::Stopped, rank);
  EXPECT_FALSE(look_for(ranks, dog, 30.0));
}

TEST(PhaseBudget, IsLearnedFromTheLastStepsWithoutTheFirst) {
  PhaseBudget budget;
  RankSample sample{.phase = RankPhase::Step, .wait_limit_ns = 7'000'000'000};
  EXPECT_GT(budget.in_phase_ns(sample), sample.wait_limit_ns);
  for (int step = 1; step <= PhaseBudget::kFirstSteps; ++step)
    budget.add_step(step, 60'000'000'000);
  for (int step = 4; step <= 20; ++step) budget.add_step(step, 10'000'000);
  EXPECT_EQ(budget.in_phase_ns(sample), PhaseBudget::kFloorNs);
  budget.add_step(21, 400'000'000);
  EXPECT_EQ(budget.in_phase_ns(sample), 2'000'000'000);
  for (int step = 22; step < 22 + PhaseBudget::kWindow; ++step) budget.add_step(step, 10'000'000);
  EXPECT_EQ(budget.in_phase_ns(sample), PhaseBudget::kFloorNs);
}

// A stop shortly after a recovery must not cost a minute.
TEST(PhaseBudget, OfAStoppedProcessIsShortBeforeAnyStepIsKnown) {
  PhaseBudget budget;
  RankSample sample;
  for (int phase = 0; phase < kNumRankPhases; ++phase) {
    sample.phase = static_cast<RankPhase>(phase);
    EXPECT_EQ(budget.of_stopped_ns(sample), PhaseBudget::kUnknownStoppedNs);
  }
  for (int step = 10; step < 20; ++step) budget.add_step(step, 4'000'000'000);
  EXPECT_EQ(budget.of_stopped_ns(sample), 20'000'000'000);
}

TEST(PhaseBudget, EveryPhaseHasOne) {
  const PhaseBudget budget;
  for (int phase = 0; phase < kNumRankPhases; ++phase) {
    const RankSample sample{.phase = static_cast<RankPhase>(phase)};
    EXPECT_GT(budget.in_phase_ns(sample), 0) << name_of(sample.phase);
    EXPECT_LE(budget.in_phase_ns(sample), int64_t{2} * 3600 * 1'000'000'000);
  }
}

}  // namespace
}  // namespace trireme
