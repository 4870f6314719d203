#include "sim/search_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "program/check.h"

namespace trireme {
namespace {

double most_alive(const Schedule& schedule) {
  int most = 0;
  for (const Program& program : schedule.programs) {
    int live = 0;
    for (const Action& action : program) {
      live += action.kind == ActionKind::F || action.kind == ActionKind::FB ? 1 : 0;
      most = std::max(most, live);
      live -= action.kind == ActionKind::W || action.kind == ActionKind::BW ||
                      action.kind == ActionKind::FB
                  ? 1
                  : 0;
    }
  }
  return most;
}

// Tested for every number of chunks, memory limit and times, also uneven ones: the schedule is
// valid, keeps the limit, and is not slower than any named schedule that keeps it.
TEST(SearchSchedule, IsValidWithinTheLimitAndAsGoodAsEveryNamedSchedule) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> draw(0.2, 3);
    const int p = 1 + static_cast<int>(random() % 5);
    const int m = 1 + static_cast<int>(random() % 12);
    const int v = 1 + static_cast<int>(random() % 2);
    Costs costs{.stages = {}, .link = {.latency_s = random() % 2 == 0 ? 0 : draw(random) / 4}};
    const int num_times = random() % 2 == 0 ? 1 : p * v;
    for (int i = 0; i < num_times; ++i) {
      costs.stages.push_back({draw(random), draw(random), draw(random)});
    }
    const int limit = random() % 3 == 0 ? 0 : v + static_cast<int>(random() % (2 * p * v));
    const SearchLimits limits{.max_live = static_cast<double>(limit), .budget = 200'000};
    const ScheduleShape shape{p, m, v};
    const Result<Schedule> found = search_schedule(shape, costs, limits);
    ASSERT_TRUE(found.ok()) << "seed " << seed << ": " << found.error().message;
    ASSERT_TRUE(check(*found).empty()) << "seed " << seed;
    if (limit > 0) {
      ASSERT_LE(most_alive(*found), limit) << "seed " << seed;
    }
    const double makespan = simulate(*found, costs).value().makespan_s;
    for (const std::string& kind : schedule_kinds()) {
      const Result<Schedule> named = make_schedule(kind, shape);
      if (!named.ok() || traits_of(kind).param_copies() > 1) continue;
      if (limit > 0 && most_alive(*named) > limit) continue;
      ASSERT_LE(makespan, simulate(*named, costs).value().makespan_s * (1 + 1e-9))
          << "seed " << seed << " " << kind;
    }
  }
}

// Qi et al. 2024: columns ZB-1p and ZB-2p of Table 5, the published greedy searches with p and 2p
// activations. Their B frees what W does not need: of the 34 sh + 5 as^2 bytes of a layer 32 sh
// remain.
TEST(SearchSchedule, IsAsGoodAsThePublishedGreedySearches) {
  struct Row {
    int m;
    double hidden, heads;
    double f, b, w, c;
    double zb_1p, zb_2p;
  };
  const Row rows[] = {
      {24, 2304, 24, 18.522, 18.086, 9.337, 0.601, 0.1585, 0.0433},
      {32, 2304, 24, 18.513, 18.086, 9.331, 0.626, 0.1242, 0.0039},
      {64, 2304, 24, 18.546, 18.097, 9.321, 0.762, 0.0674, 0.0026},
      {24, 4096, 32, 29.718, 29.444, 19.927, 0.527, 0.1323, 0.0029},
      {32, 4096, 32, 29.802, 29.428, 19.530, 0.577, 0.1045, 0.0022},
      {64, 4096, 32, 29.935, 29.621, 19.388, 0.535, 0.0554, 0.0010},
  };
  const int p = 8;
  for (const Row& row : rows) {
    Costs costs{.stages = {{row.f, row.b, row.w}}, .link = {.latency_s = row.c}};
    const double seq_len = 1024;
    costs.held_for_w = 32 * row.hidden / (34 * row.hidden + 5 * row.heads * seq_len);
    for (const int times_p : {1, 2}) {
      const SearchLimits limits{.max_live = 1.0 * times_p * p,
                                .budget = row.m == 24 ? 1'200'000 : 500'000};
      const Schedule found = search_schedule({p, row.m}, costs, limits).value();
      const double rate = simulate(found, costs).value().bubbles.of_span;
      EXPECT_LE(std::round(1e4 * rate) / 1e4, times_p == 1 ? row.zb_1p : row.zb_2p)
          << "m " << row.m << " F " << row.f << " limit " << times_p << "p";
    }
  }
}

// With 2p activations the makespan cannot be improved: the last rank starts as early as possible
// and never waits.
TEST(SearchSchedule, ReachesTheLowerBoundOfTheMakespanWithTwicePActivations) {
  for (const StageTimes& times : {StageTimes{1, 1, 1}, {18.5, 18.1, 9.3}, {2, 3, 2.5}}) {
    const int p = 6;
    const int m = 24;
    const double comm = 0.05;
    const Costs costs{.stages = {times}, .link = {.latency_s = comm}};
    const Schedule found = search_schedule({p, m}, costs, {.max_live = 2.0 * p}).value();
    const double bound = (p - 1) * (times.f_s + comm) + m * (times.f_s + times.b_s + times.w_s);
    EXPECT_NEAR(simulate(found, costs).value().makespan_s, bound, 1e-9 * bound);
  }
}

TEST(SearchSchedule, RepeatsItself) {
  const Costs costs{.stages = {{1, 1.3, 0.7}}, .link = {.latency_s = 0.1}};
  const SearchLimits limits{.max_live = 7, .budget = 300'000};
  EXPECT_EQ(search_schedule({5, 13}, costs, limits)->programs,
            search_schedule({5, 13}, costs, limits)->programs);
}

TEST(SearchSchedule, RefusesWhatCannotBe) {
  const Costs costs;
  EXPECT_EQ(search_schedule({0, 4}, costs, {}).error().kind, ErrorKind::Usage);
  EXPECT_EQ(search_schedule({4, 4}, costs, {.max_live = -1}).error().kind, ErrorKind::Usage);
  const Result<Schedule> found = search_schedule({4, 8, 2}, costs, {.max_live = 1});
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().kind, ErrorKind::Infeasible);
  EXPECT_NE(found.error().message.find("at most 1 activations"), std::string::npos);
}

}  // namespace
}  // namespace trireme
