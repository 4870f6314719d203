#include "autoparallel/pipeline_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <tuple>

#include "autoparallel/cluster_units.h"

namespace trireme {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Operators of random work and memory. A larger mesh is faster, by less than its size.
PipelineProblem random_problem(std::mt19937& random) {
  const auto below = [&](int count) { return int(random() % unsigned(count)); };
  PipelineProblem problem;
  problem.num_operators = 1 + below(6);
  problem.num_ranks = 1 + below(8);
  problem.mesh_sizes = {1, 2, 4, 8};
  problem.num_microbatches = 1 + below(6);
  problem.most_stages = 1 + below(6);
  std::vector<double> work;
  for (int i = 0; i < problem.num_operators; ++i) work.push_back(1.0 + below(9));
  const std::vector<double> speed{1.0, 1.0 + below(10) / 10.0, 2.0 + below(10) / 5.0,
                                  3.0 + below(10) / 2.0};
  const double memory = 4.0 + below(40);
  problem.seconds = [=](int first, int last, int size, int in_flight, int mix) {
    double sum = 0.0;
    for (int i = first; i <= last; ++i) sum += work[size_t(i)];
    const double bytes = sum * (1.0 + 0.5 * in_flight) / (1 << size);
    return bytes > memory / (1 + mix) ? kNever : sum / speed[size_t(size)] * (1 + mix);
  };
  return problem;
}

// The ranks have one of two devices: the second one is slower and has less memory, and so is a
// stage that has both.
void mix_devices(PipelineProblem& problem, std::mt19937& random) {
  std::vector<int> device_of;
  for (int rank = 0; rank < problem.num_ranks; ++rank) device_of.push_back(int(random() % 2));
  problem.mix_of = [device_of, sizes = problem.mesh_sizes](int first_rank, int size) {
    const auto begin = device_of.begin() + first_rank;
    return *std::max_element(begin, begin + sizes[size_t(size)]);
  };
}

// The first ranks have the first device, on nodes that take all sizes. The others have the second
// one, whose nodes are smaller.
void mix_nodes(PipelineProblem& problem, std::mt19937& random) {
  const int num_first = int(random() % size_t(problem.num_ranks));
  const int node = 1 << random() % 3;
  problem.mix_of = [=, sizes = problem.mesh_sizes](int first_rank, int size) {
    const int ranks = sizes[size_t(size)];
    if (first_rank >= num_first) return ranks <= node || ranks % node == 0 ? 1 : kNoStage;
    return first_rank + ranks <= num_first ? 0 : kNoStage;
  };
}

// Tries every way to cut the operators and to share out the ranks.
class AllSplits {
 public:
  explicit AllSplits(const PipelineProblem& problem) : problem_(problem) {}
  double least() {
    for (int stages = 1; stages <= problem_.most_stages; ++stages) {
      add(stages, 0, problem_.num_ranks, 0.0, 0.0);
    }
    return least_;
  }

 private:
  void add(int stages, int first, int ranks, double sum, double slowest) {
    if (stages == 0) {
      if (first != problem_.num_operators || ranks != 0) return;
      least_ = std::min(least_, sum + double(problem_.num_microbatches - 1) * slowest);
      return;
    }
    for (size_t size = 0; size < problem_.mesh_sizes.size(); ++size) {
      const int taken = problem_.mesh_sizes[size];
      if (taken > ranks) continue;
      for (int last = first; last < problem_.num_operators; ++last) {
        const int in_flight = int(std::min<int64_t>(stages, problem_.num_microbatches));
        const int mix =
            problem_.mix_of ? problem_.mix_of(problem_.num_ranks - ranks, int(size)) : 0;
        if (mix == kNoStage) continue;
        const double s = problem_.seconds(first, last, int(size), in_flight, mix);
        if (s < kNever) add(stages - 1, last + 1, ranks - taken, sum + s, std::max(slowest, s));
      }
    }
  }
  const PipelineProblem& problem_;
  double least_ = kNever;
};

TEST(PipelineSearch, FindsTheLeastStepOfAllSplits) {
  std::mt19937 random(4);
  int found_some = 0;
  for (int round = 0; round < 800; ++round) {
    PipelineProblem problem = random_problem(random);
    if (round % 4 == 1) mix_devices(problem, random);
    if (round % 4 == 3) mix_nodes(problem, random);
    const std::optional<PipelineSplit> found = split_pipeline(problem);
    const double least = AllSplits(problem).least();
    EXPECT_DOUBLE_EQ(found ? found->step_s : kNever, least) << "round " << round;
    if (!found) continue;
    ++found_some;
    int next = 0, ranks = 0;
    for (const PipelineStage& stage : found->stages) {
      EXPECT_EQ(stage.first, next);
      next = stage.last + 1;
      ranks += problem.mesh_sizes[size_t(stage.size)];
    }
    EXPECT_EQ(next, problem.num_operators);
    EXPECT_EQ(ranks, problem.num_ranks);
  }
  EXPECT_GT(found_some, 100);
}

TEST(PipelineSearch, AGapCostsNoMoreThanItsShare) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    PipelineProblem problem = random_problem(random);
    const std::optional<PipelineSplit> exact = split_pipeline(problem);
    problem.gap = 0.05;
    const std::optional<PipelineSplit> quick = split_pipeline(problem);
    ASSERT_EQ(exact.has_value(), quick.has_value());
    if (!exact) continue;
    EXPECT_LE(quick->step_s, exact->step_s * 1.05 + 1e-9) << "round " << round;
  }
}

// Bounds of random quality, also of stages that do not fit.
void add_bounds(PipelineProblem& problem, std::mt19937& random, int& asked) {
  const double share = double(random() % 10) / 10.0;
  problem.bounds = [=, seconds = problem.seconds](int first, int last, int size, int in_flight,
                                                  int mix) {
    const double exact = seconds(first, last, size, in_flight, mix);
    if (first % 3 == 0) return SecondsBounds{exact, exact};
    const double fitting = seconds(first, last, size, 0, mix);  // needs the least memory
    return SecondsBounds{(1.0 - share) * fitting, kNever};
  };
  problem.seconds = [&asked, seconds = problem.seconds](int first, int last, int size,
                                                        int in_flight, int mix) {
    ++asked;
    return seconds(first, last, size, in_flight, mix);
  };
}

TEST(PipelineSearch, BoundsOfStagesLeadToTheSameStepAndFewerQuestions) {
  std::mt19937 random(7);
  int64_t asked_without = 0, asked_with = 0, found_some = 0;
  for (int round = 0; round < 800; ++round) {
    PipelineProblem problem = random_problem(random);
    if (round % 2 == 1) mix_devices(problem, random);
    const double least = AllSplits(problem).least();
    int asked = 0;
    PipelineProblem bounded = problem;
    add_bounds(bounded, random, asked);
    const std::optional<PipelineSplit> found = split_pipeline(bounded);
    EXPECT_DOUBLE_EQ(found ? found->step_s : kNever, least) << "round " << round;
    asked_with += asked;
    asked = 0;
    bounded.bounds = {};
    split_pipeline(bounded);
    asked_without += asked;
    found_some += found ? 1 : 0;
  }
  EXPECT_GT(found_some, 100);
  EXPECT_LT(2 * asked_with, asked_without);
}

// Tries every clustering: bit i says that a cluster begins at unit i + 1.
TEST(ClusterUnits, FindsTheSmallestBorderAndThenTheMostEvenWork) {
  std::mt19937 random(6);
  for (int round = 0; round < 300; ++round) {
    std::vector<UnitWork> units;
    const int count = 1 + int(random() % 8);
    for (int i = 0; i < count; ++i) {
      units.push_back({1.0 + double(random() % 6), double(random() % 4)});
    }
    const int operators = 1 + int(random() % unsigned(count));
    const double slack = double(random() % 10) / 10.0;
    double total = 0.0;
    for (const UnitWork& unit : units) total += unit.work;
    const auto cost_of = [&](const std::vector<int>& firsts) -> std::pair<double, double> {
      double border = 0.0, squares = 0.0;
      for (size_t r = 0; r < firsts.size(); ++r) {
        const int end = r + 1 < firsts.size() ? firsts[r + 1] : count;
        double work = 0.0;
        for (int i = firsts[r]; i < end; ++i) work += units[size_t(i)].work;
        if (work > (1.0 + slack) * total / operators) return {kNever, kNever};
        if (r > 0) border = std::max(border, units[size_t(firsts[r])].received_bytes);
        squares += work * work;
      }
      return {border, squares};
    };
    std::pair<double, double> least{kNever, kNever};
    for (int bits = 0; bits < 1 << (count - 1); ++bits) {
      std::vector<int> firsts{0};
      for (int i = 1; i < count; ++i) {
        if ((bits >> (i - 1) & 1) != 0) firsts.push_back(i);
      }
      if (int(firsts.size()) == operators) least = std::min(least, cost_of(firsts));
    }
    const auto found = cluster_units(units, operators, slack);
    EXPECT_EQ(found ? cost_of(*found) : std::pair(kNever, kNever), least) << "round " << round;
  }
}

}  // namespace
}  // namespace trireme
