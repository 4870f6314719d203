#include "autoparallel/choice_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "autoparallel/eliminate_choices.h"
#include "autoparallel/integer_program_fixture.h"

namespace trireme {
namespace {

struct RandomGraphs {
  int most_nodes = 6;
  int most_choices = 4;
};

// A chain with random edges across it. Costs are whole numbers, so that sums are exact.
ChoiceProblem random_problem(std::mt19937& random, const RandomGraphs& size) {
  const auto below = [&](int count) { return int(random() % unsigned(count)); };
  ChoiceProblem problem;
  const int num_nodes = 1 + below(size.most_nodes);
  for (int node = 0; node < num_nodes; ++node) {
    ChoiceNode added{"node", {}};
    const int num_choices = 1 + below(size.most_choices);
    for (int choice = 0; choice < num_choices; ++choice) {
      added.choices.push_back({double(below(20)), double(below(10)), double(below(10))});
    }
    problem.nodes.push_back(std::move(added));
  }
  const auto join = [&](int from, int to) {
    ChoiceEdge edge{from, to, {}};
    const size_t pairs =
        problem.nodes[size_t(from)].choices.size() * problem.nodes[size_t(to)].choices.size();
    for (size_t pair = 0; pair < pairs; ++pair) {
      edge.seconds.push_back(below(8) == 0 ? kImpossible : double(below(15)));
    }
    problem.edges.push_back(std::move(edge));
  };
  for (int node = 1; node < num_nodes; ++node) {
    if (below(5) > 0) join(below(3) == 0 ? below(node) : node - 1, node);
    if (node > 1 && below(3) == 0) join(node, below(node));
  }
  return problem;
}

// Visits every assignment, without those of an impossible node or edge.
template <typename Visit>
void for_each_assignment(const ChoiceProblem& problem, Visit visit) {
  std::vector<int> choices(problem.nodes.size(), 0);
  while (true) {
    const ChoiceCost cost = cost_of(problem, choices);
    if (cost.seconds < kImpossible) visit(Assignment{choices, cost});
    size_t node = 0;
    while (node < choices.size() && ++choices[node] == int(problem.nodes[node].choices.size())) {
      choices[node++] = 0;
    }
    if (node == choices.size()) return;
  }
}

double least_of_all(const ChoiceProblem& problem, const ChoiceLimit& limit) {
  double least = kImpossible;
  for_each_assignment(problem, [&](const Assignment& assignment) {
    if (limit.bytes_of(assignment.cost) <= limit.bytes) {
      least = std::min(least, assignment.cost.seconds);
    }
  });
  return least;
}

double seconds_of(const std::optional<Assignment>& found) {
  return found ? found->cost.seconds : kImpossible;
}

ChoiceLimit random_limit(std::mt19937& random) {
  if (random() % 4 == 0) return {};
  return {double(random() % 60), double(random() % 4)};
}

TEST(ChoiceProblem, BothSolversFindTheLeastOfAllAssignments) {
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    const ChoiceProblem problem = random_problem(random, {});
    const ChoiceLimit limit = random_limit(random);
    const double least = least_of_all(problem, limit);
    const std::optional<Assignment> eliminated = least_seconds(problem, limit);
    const std::optional<Assignment> solved = solve_integer_program(problem, limit);
    EXPECT_EQ(seconds_of(eliminated), least) << "round " << round;
    EXPECT_EQ(seconds_of(solved), least) << "round " << round;
    for (const auto& found : {eliminated, solved}) {
      if (!found) continue;
      EXPECT_LE(limit.bytes_of(found->cost), limit.bytes) << "round " << round;
    }
  }
}

TEST(ChoiceProblem, TradeoffsAreAllThatNothingBeats) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    const ChoiceProblem problem = random_problem(random, {});
    const std::vector<Assignment> found = best_tradeoffs(problem);
    for (const Assignment& kept : found) {
      EXPECT_EQ(cost_of(problem, kept.choices), kept.cost);
      EXPECT_EQ(std::count_if(
                    found.begin(), found.end(),
                    [&](const Assignment& other) { return is_no_worse(other.cost, kept.cost); }),
                1);
    }
    for_each_assignment(problem, [&](const Assignment& any) {
      EXPECT_TRUE(
          std::any_of(found.begin(), found.end(),
                      [&](const Assignment& kept) { return is_no_worse(kept.cost, any.cost); }))
          << "round " << round;
    });
  }
}

// A limit of seconds leaves out the slow assignments and no other.
TEST(ChoiceProblem, TradeoffsWithALimitOfSecondsAreTheFastOnes) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    const ChoiceProblem problem = random_problem(random, {});
    const double most_s = double(random() % 60);
    std::vector<ChoiceCost> fast;
    for (const Assignment& all : best_tradeoffs(problem)) {
      if (all.cost.seconds <= most_s) fast.push_back(all.cost);
    }
    const std::vector<Assignment> limited = best_tradeoffs(problem, {.seconds = most_s});
    ASSERT_EQ(limited.size(), fast.size()) << "round " << round;
    for (size_t i = 0; i < fast.size(); ++i) {
      EXPECT_EQ(limited[i].cost, fast[i]);
      EXPECT_EQ(cost_of(problem, limited[i].choices), fast[i]);
    }
    EXPECT_TRUE(limited.empty() || least_seconds_of_nodes(problem) <= most_s);
  }
}

// Bytes that are nearly equal count as equal whenever two partial costs are added, so the share
// grows with the number of sums. No tradeoff gets slower by it.
TEST(ChoiceProblem, WithNearlyEqualBytesEveryTradeoffHasOneThatIsAsFastAndHardlyLarger) {
  std::mt19937 random(5);
  size_t num_exact = 0, num_kept = 0;
  for (int round = 0; round < 300; ++round) {
    const ChoiceProblem problem = random_problem(random, {.most_nodes = 9, .most_choices = 5});
    const double same_bytes = round % 2 == 0 ? 0.005 : 0.1;
    const std::vector<Assignment> kept = best_tradeoffs(problem, {.same_bytes = same_bytes});
    const std::vector<Assignment> exact = best_tradeoffs(problem);
    const double sums = double(problem.nodes.size() + problem.edges.size() + 1);
    const double most = std::pow(1.0 + same_bytes, sums);
    for (const Assignment& best : exact) {
      EXPECT_TRUE(std::any_of(kept.begin(), kept.end(),
                              [&](const Assignment& other) {
                                return other.cost.seconds <= best.cost.seconds &&
                                       other.cost.state_bytes <= most * best.cost.state_bytes &&
                                       other.cost.activation_bytes <=
                                           most * best.cost.activation_bytes;
                              }))
          << "round " << round;
    }
    num_exact += exact.size();
    num_kept += kept.size();
  }
  EXPECT_LT(num_kept, num_exact);
}

TEST(ChoiceProblem, SolversAgreeOnGraphsThatAreTooLargeToTryAll) {
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    const ChoiceProblem problem = random_problem(random, {.most_nodes = 14, .most_choices = 5});
    const ChoiceLimit limit{double(20 + random() % 100), 1.0};
    EXPECT_EQ(seconds_of(least_seconds(problem, limit)),
              seconds_of(solve_integer_program(problem, limit)))
        << "round " << round;
  }
}

TEST(ChoiceProblem, ATreeNeedsNoTableLargerThanAPairOfNodes) {
  ChoiceProblem problem;
  for (int node = 0; node < 40; ++node) problem.nodes.push_back({"n", std::vector<ChoiceCost>(3)});
  for (int node = 1; node < 40; ++node) {
    problem.edges.push_back({(node - 1) / 2, node, std::vector<double>(9, 1.0)});
  }
  EXPECT_EQ(largest_table(problem), 9.0);
  EXPECT_EQ(least_seconds(problem, {})->cost.seconds, 39.0);
}

}  // namespace
}  // namespace trireme
