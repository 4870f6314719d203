#include "serving/deployment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autoparallel/integer_program_fixture.h"
#include "serving/random_serving_fixture.h"

namespace trireme {
namespace {

// What CBC answers to the same program; its integers come first. `fixed`: values of the first
// variables.
double cost_by_cbc(const LinearProblem& problem, const std::vector<double>& fixed = {}) {
  LinearProgram program;
  std::vector<std::vector<std::pair<int, double>>> columns(problem.variables.size());
  for (const LinearRow& row : problem.rows) {
    const int number = program.add_row(row.lower, row.upper);
    for (const auto& [variable, factor] : row.terms) {
      columns[size_t(variable)].emplace_back(number, factor);
    }
  }
  int num_integers = 0;
  for (size_t i = 0; i < problem.variables.size(); ++i) {
    const LinearVariable& variable = problem.variables[i];
    if (variable.is_integer) ++num_integers;
    const double upper = std::min(variable.upper, 1e6);
    program.add_variable(variable.cost, i < fixed.size() ? 1e6 : upper);
    for (const auto& [row, factor] : columns[i]) program.stands_in(row, factor);
    if (i < fixed.size()) program.stands_in(program.add_row(fixed[i], fixed[i]), 1.0);
  }
  const std::vector<double> values = program.solve(num_integers);
  if (values.empty()) return kUnlimited;
  double cost = 0.0;
  for (size_t i = 0; i < values.size(); ++i) cost += problem.variables[i].cost * values[i];
  return cost;
}

double cost_of(const std::optional<Deployment>& deployment) {
  return deployment ? deployment->cost_per_hour() : kUnlimited;
}

DeploymentProblem random_problem(RandomServing& random, int num_operators, int num_kinds,
                                 int most_workers) {
  const Tiers tiers = random.tiers(1 + random.below(3), num_kinds, most_workers);
  const ServedPipeline pipeline = random.pipeline(tiers, num_operators, 1);
  return deployment_problem(pipeline, tiers, ModelChoice(size_t(num_operators), 0));
}

TEST(DeployWork, CostsWhatCbcFinds) {
  int feasible = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    RandomServing random(seed);
    const DeploymentProblem problem =
        random_problem(random, 1 + random.below(3), 1 + random.below(5), 6);
    const auto deployment = deploy_work(problem);
    const double by_cbc = cost_by_cbc(deployment_program(problem));
    ASSERT_EQ(std::isinf(cost_of(deployment)), std::isinf(by_cbc)) << "seed " << seed;
    if (!deployment) continue;
    ++feasible;
    EXPECT_NEAR(deployment->cost_per_hour(), by_cbc, 1e-6 * by_cbc) << "seed " << seed;
    EXPECT_TRUE(broken_limits(problem, *deployment).empty())
        << "seed " << seed << ": " << broken_limits(problem, *deployment).front();
    EXPECT_LE(*deployment_bound(problem), by_cbc * (1 + 1e-9)) << "seed " << seed;
  }
  EXPECT_GT(feasible, 30);
}

// All numbers of workers are tried; the shares that flow are chosen by CBC for each.
TEST(DeployWork, IsTheCheapestOfAllNumbersOfWorkers) {
  for (unsigned seed = 1000; seed < 1006; ++seed) {
    RandomServing random(seed);
    const DeploymentProblem problem = random_problem(random, 2, 2, 3);
    const LinearProblem program = deployment_program(problem);
    double least = kUnlimited;
    for (int code = 0; code < 256; ++code) {
      std::vector<double> workers;
      for (int i = 0; i < 4; ++i) workers.push_back((code >> (2 * i)) & 3);
      bool can_serve = true;
      for (size_t i = 0; i < 4; ++i) {
        can_serve = can_serve && (workers[i] == 0.0 || program.variables[i].upper > 0.0);
      }
      if (can_serve) least = std::min(least, cost_by_cbc(program, workers));
    }
    const double found = cost_of(deploy_work(problem));
    ASSERT_EQ(std::isinf(found), std::isinf(least)) << "seed " << seed;
    if (!std::isinf(least)) {
      EXPECT_NEAR(found, least, 1e-6 * least) << "seed " << seed;
    }
  }
}

TEST(DeployWork, IsMonotoneInEveryPriceAndLimit) {
  for (unsigned seed = 2000; seed < 2040; ++seed) {
    RandomServing random(seed);
    const DeploymentProblem problem = random_problem(random, 2, 3, 5);
    const double cost = cost_of(deploy_work(problem));
    const auto expect_at_least = [&](const DeploymentProblem& harder, const char* what) {
      EXPECT_GE(cost_of(deploy_work(harder)), cost - 1e-7) << what << ", seed " << seed;
    };
    for (size_t kind = 0; kind < problem.kinds.size(); ++kind) {
      DeploymentProblem harder = problem;
      harder.kinds[kind].price_per_hour *= 1.3;
      expect_at_least(harder, "price of a worker");
      harder = problem;
      harder.kinds[kind].workers -= 1;
      expect_at_least(harder, "number of workers");
    }
    DeploymentProblem harder = problem;
    for (DeploymentProblem::Link& link : harder.links) link.price_per_gb *= 2.0;
    expect_at_least(harder, "price of traffic");
    harder = problem;
    for (DeploymentProblem::Link& link : harder.links) link.bytes_per_s *= 0.7;
    expect_at_least(harder, "bandwidth");
    harder = problem;
    for (DeploymentProblem::Work& work : harder.works) work.items_per_s *= 1.1;
    expect_at_least(harder, "rate");
  }
}

// Each relaxation alone is enough, and a little less is not.
TEST(RelaxDeployment, IsTheSmallest) {
  int relaxed_kinds = 0, relaxed_links = 0;
  for (unsigned seed = 3000; seed < 3120; ++seed) {
    RandomServing random(seed);
    DeploymentProblem problem = random_problem(random, 2, 3, seed % 2 == 0 ? 2 : 20);
    if (seed % 2 == 1) {
      for (DeploymentProblem::Link& link : problem.links) link.bytes_per_s *= 0.1;
    }
    if (deploy_work(problem)) continue;
    SearchBudget budget;
    const Relaxations relaxed = relax_deployment(problem, budget);
    const auto at_rate = [&](double share) {
      DeploymentProblem slower = problem;
      for (DeploymentProblem::Work& work : slower.works) work.items_per_s *= share;
      for (DeploymentProblem::Edge& edge : slower.edges) edge.bytes_per_s *= share;
      return deploy_work(slower).has_value();
    };
    ASSERT_LT(relaxed.rate_share, 1.0) << seed;
    if (relaxed.rate_share > 1e-3) {
      EXPECT_TRUE(at_rate(relaxed.rate_share * (1 - 1e-6))) << seed;
    }
    EXPECT_FALSE(at_rate(relaxed.rate_share * (1 + 1e-4) + 1e-6)) << seed;
    for (size_t kind = 0; kind < problem.kinds.size(); ++kind) {
      if (std::isinf(relaxed.more_workers[kind])) continue;
      ++relaxed_kinds;
      DeploymentProblem more = problem;
      more.kinds[kind].workers += int64_t(relaxed.more_workers[kind]);
      EXPECT_TRUE(deploy_work(more)) << seed;
      more.kinds[kind].workers -= 1;
      EXPECT_FALSE(deploy_work(more)) << seed;
    }
    for (size_t tier = 0; tier < relaxed.link_bytes_per_s.size(); ++tier) {
      if (std::isinf(relaxed.link_bytes_per_s[tier])) continue;
      ++relaxed_links;
      DeploymentProblem faster = problem;
      faster.links[tier].bytes_per_s = relaxed.link_bytes_per_s[tier] * (1 + 1e-6);
      EXPECT_TRUE(deploy_work(faster)) << seed;
      faster.links[tier].bytes_per_s = relaxed.link_bytes_per_s[tier] * (1 - 1e-4);
      EXPECT_FALSE(deploy_work(faster)) << seed;
    }
  }
  EXPECT_GT(relaxed_kinds, 10);
  EXPECT_GT(relaxed_links, 3);
}

TEST(BrokenLimits, NoticeEveryDamage) {
  RandomServing random(7);
  DeploymentProblem problem = random_problem(random, 2, 4, 5);
  std::optional<Deployment> deployment = deploy_work(problem);
  for (unsigned seed = 8; !deployment || problem.num_tiers < 2 || deployment->done[1][0] > 0.9;
       ++seed) {
    RandomServing next(seed);
    problem = random_problem(next, 2, 4, 5);
    deployment = deploy_work(problem);
  }
  ASSERT_TRUE(broken_limits(problem, *deployment).empty());
  Deployment damaged = *deployment;
  for (auto& kinds : damaged.workers) std::fill(kinds.begin(), kinds.end(), 0);
  EXPECT_FALSE(broken_limits(problem, damaged).empty());
  damaged = *deployment;
  damaged.done[0].assign(damaged.done[0].size(), 0.0);  // behind the operator that reads it
  EXPECT_FALSE(broken_limits(problem, damaged).empty());
  damaged = *deployment;
  damaged.workers[0][0] += 100;
  EXPECT_FALSE(broken_limits(problem, damaged).empty());
  damaged = *deployment;
  damaged.link_bytes_per_s[0] = 1e9;
  EXPECT_FALSE(broken_limits(problem, damaged).empty());
}

}  // namespace
}  // namespace trireme
