#pragma once

#include <optional>
#include <string>
#include <vector>

#include "serving/linear_problem.h"
#include "serving/pipeline.h"
#include "serving/tiers.h"

namespace trireme {

// The numbers on which the placement of a pipeline depends, once its models are chosen. Workers and
// links may be busy for at most the share `utilization` of the time.
struct DeploymentProblem {
  struct Kind {
    int tier = 0;
    int64_t workers = 0;
    double price_per_hour = 0.0;
  };
  struct Link {
    double bytes_per_s = 0.0;
    double price_per_gb = 0.0;
  };
  struct Work {
    double items_per_s = 0.0;
    std::vector<double> speeds;  // [kind] items per second of a worker; 0: it cannot do this work
  };
  struct Edge {
    bool is_source = false;
    int from = 0;  // an operator, or the tier of a source
    int to = 0;    // an operator
    double bytes_per_s = 0.0;
  };
  int num_tiers = 0;
  double utilization = 1.0;
  std::vector<Kind> kinds;
  std::vector<Link> links;  // [tier] from it to the next one; the last tier has none
  std::vector<Work> works;  // [operator]
  std::vector<Edge> edges;
};

// A kind of workers whose memory is too small for a model has speed 0.
DeploymentProblem deployment_problem(const ServedPipeline& pipeline, const Tiers& tiers,
                                     const ModelChoice& choice);

// Which workers do which work. The tier of an item follows from one number of the item, uniform in
// [0, 1): an operator does an item of the number q in the first tier t with q < done[operator][t].
// An operator never has a larger share done than those that it reads, so no item flows back.
struct Deployment {
  std::vector<std::vector<int64_t>> workers;  // [operator][kind]
  std::vector<std::vector<double>> done;      // [operator][tier] share up to and with this tier
  std::vector<double> link_bytes_per_s;       // [tier] from it to the next one
  double workers_per_hour = 0.0;              // price
  double traffic_per_hour = 0.0;              // price

  double cost_per_hour() const { return workers_per_hour + traffic_per_hour; }
  double share_in(size_t op, size_t tier) const {
    return done[op][tier] - (tier > 0 ? done[op][tier - 1] : 0.0);
  }
  // Share of the time in which the workers of an operator in a tier are busy; 0: there are none.
  double busy_share(const DeploymentProblem& problem, size_t op, size_t tier) const;
};

// Lower bound of the cost per hour: workers may be parts of workers. Returns nullopt if no
// deployment keeps the limits. The work is taken from the budget, if there is one.
std::optional<double> deployment_bound(const DeploymentProblem& problem,
                                       SearchBudget* budget = nullptr);

// The cheapest deployment, or nullopt if none costs less than `cutoff` per hour. It is exact as far
// as the budget goes.
std::optional<Deployment> deploy_work(const DeploymentProblem& problem, SearchBudget& budget,
                                      double cutoff = kUnlimited);
std::optional<Deployment> deploy_work(const DeploymentProblem& problem);  // without a budget

// The integer program that `deploy_work` solves (docs/serving_plan.md). The workers are its first
// variables, [operator][kind].
LinearProblem deployment_program(const DeploymentProblem& problem);

// What could be relaxed, alone, so that a deployment exists: the smallest changes that were found
// with the budget.
struct Relaxations {
  // The share of all rates for which there is a deployment, the largest one.
  double rate_share = 0.0;
  std::vector<double> more_workers;      // [kind] the fewest; kUnlimited: no number is enough
  std::vector<double> link_bytes_per_s;  // [tier] the slowest that is enough; kUnlimited: none
};
Relaxations relax_deployment(const DeploymentProblem& problem, SearchBudget& budget);

// Returns what a deployment does not keep: rates, numbers of workers, links, the direction of
// flows. Empty: it is feasible.
std::vector<std::string> broken_limits(const DeploymentProblem& problem,
                                       const Deployment& deployment);

}  // namespace trireme
