#include "serving/deployment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

constexpr double kSecondsPerHour = 3600.0;
constexpr double kBytesPerGb = 1e9;
constexpr double kTolerance = 1e-6;  // of shares and rates in `broken_limits`

double price_per_hour(const DeploymentProblem::Link& link, double bytes_per_s) {
  return bytes_per_s * kSecondsPerHour * link.price_per_gb / kBytesPerGb;
}

// The unit in which the bytes of a link are counted, so that its speed is one.
double unit_of(const DeploymentProblem::Link& link) {
  return link.bytes_per_s > 0.0 ? link.bytes_per_s : 1.0;
}

// What is minimized. All goals but the cost free one limit.
enum class Goal : unsigned char { Cost, LostRate, MoreWorkers, FasterLink };

// The variables of the program. A share is the part of an operator's items that is done up to and
// with a tier. Without a variable, -1, it is 0 or, in the last tier, what is not lost.
class DeploymentProgram {
 public:
  DeploymentProgram(const DeploymentProblem& problem, Goal goal, int freed = -1)
      : problem_(problem), goal_(goal), freed_(freed) {
    add_workers();
    // The share of all items that is lost: none, unless the rate is relaxed.
    lost_ = program_.add(
        {.cost = goal == Goal::LostRate ? 1.0 : 0.0, .upper = goal == Goal::LostRate ? 1.0 : 0.0});
    if (goal == Goal::MoreWorkers) {
      more_ = program_.add({.cost = 1.0, .is_integer = true});
    } else if (goal == Goal::FasterLink) {
      more_ = program_.add({.cost = 1.0});
    }
    add_shares();
    limit_workers();
    keep_rates();
    add_flows();
  }

  const LinearProblem& program() const { return program_; }
  double more(const LinearAnswer& answer) const { return answer.values[size_t(more_)]; }
  double lost(const LinearAnswer& answer) const { return answer.values[size_t(lost_)]; }

  Deployment deployment(const LinearAnswer& answer) const {
    Deployment deployment;
    const size_t num_kinds = problem_.kinds.size(), num_tiers = size_t(problem_.num_tiers);
    for (size_t op = 0; op < problem_.works.size(); ++op) {
      std::vector<int64_t>& workers = deployment.workers.emplace_back();
      for (size_t kind = 0; kind < num_kinds; ++kind) {
        workers.push_back(int64_t(std::lround(answer.values[op * num_kinds + kind])));
        deployment.workers_per_hour += double(workers.back()) * problem_.kinds[kind].price_per_hour;
      }
      std::vector<double>& done = deployment.done.emplace_back();
      double before = 0.0;
      for (size_t tier = 0; tier < num_tiers; ++tier) {
        const bool is_last = tier + 1 == num_tiers;
        const double share = is_last ? 1.0 : answer.values[size_t(share_of(op, tier))];
        before = std::clamp(share, before, 1.0);
        if (before < kTolerance * 1e-3) before = 0.0;
        if (before > 1.0 - kTolerance * 1e-3) before = 1.0;
        done.push_back(before);
      }
    }
    deployment.link_bytes_per_s.assign(num_tiers, 0.0);
    for (size_t tier = 0; tier + 1 < num_tiers; ++tier) {
      for (const DeploymentProblem::Edge& edge : problem_.edges) {
        const double from = edge.is_source ? (size_t(edge.from) <= tier ? 1.0 : 0.0)
                                           : deployment.done[size_t(edge.from)][tier];
        const double crossing = std::max(from - deployment.done[size_t(edge.to)][tier], 0.0);
        deployment.link_bytes_per_s[tier] += crossing * edge.bytes_per_s;
      }
      deployment.traffic_per_hour +=
          price_per_hour(problem_.links[tier], deployment.link_bytes_per_s[tier]);
    }
    return deployment;
  }

 private:
  bool is_freed(Goal goal, size_t index) const { return goal_ == goal && freed_ == int(index); }
  int worker_of(size_t op, size_t kind) const { return int(op * problem_.kinds.size() + kind); }
  int share_of(size_t op, size_t tier) const {
    return first_share_ + int(op * size_t(problem_.num_tiers - 1) + tier);
  }
  bool is_last(size_t tier) const { return int(tier) + 1 == problem_.num_tiers; }

  void add_workers() {
    for (const DeploymentProblem::Work& work : problem_.works) {
      for (size_t kind = 0; kind < problem_.kinds.size(); ++kind) {
        program_.add({.cost = goal_ == Goal::Cost ? problem_.kinds[kind].price_per_hour : 0.0,
                      .upper = work.speeds[kind] > 0.0 ? kUnlimited : 0.0,
                      .is_integer = true});
      }
    }
  }

  void add_shares() {
    first_share_ = int(program_.variables.size());
    for (size_t op = 0; op < problem_.works.size(); ++op) {
      for (size_t tier = 0; !is_last(tier); ++tier) program_.add({});
    }
    for (size_t op = 0; op < problem_.works.size(); ++op) {
      for (size_t tier = 0; !is_last(tier); ++tier) {
        LinearRow grows{.terms = {{share_of(op, tier), -1.0}}, .lower = 0.0};
        add_share(grows, op, tier + 1, 1.0);
        program_.rows.push_back(std::move(grows));
      }
    }
  }

  // Adds the share with a factor. In the last tier it is 1 - lost.
  void add_share(LinearRow& row, size_t op, size_t tier, double factor) const {
    if (!is_last(tier)) {
      row.terms.emplace_back(share_of(op, tier), factor);
      return;
    }
    row.terms.emplace_back(lost_, -factor);
    if (!std::isinf(row.lower)) row.lower -= factor;
    if (!std::isinf(row.upper)) row.upper -= factor;
  }

  void limit_workers() {
    for (size_t kind = 0; kind < problem_.kinds.size(); ++kind) {
      LinearRow row{.upper = double(problem_.kinds[kind].workers)};
      for (size_t op = 0; op < problem_.works.size(); ++op) {
        if (problem_.works[op].speeds[kind] > 0.0) row.terms.emplace_back(worker_of(op, kind), 1.0);
      }
      if (is_freed(Goal::MoreWorkers, kind)) row.terms.emplace_back(more_, -1.0);
      program_.rows.push_back(std::move(row));
    }
  }

  // The workers of a tier are fast enough for what is done there. Every operator has a worker.
  void keep_rates() {
    for (size_t op = 0; op < problem_.works.size(); ++op) {
      const DeploymentProblem::Work& work = problem_.works[op];
      for (size_t tier = 0; tier < size_t(problem_.num_tiers); ++tier) {
        LinearRow row{.lower = 0.0};
        for (size_t kind = 0; kind < problem_.kinds.size(); ++kind) {
          if (problem_.kinds[kind].tier != int(tier) || work.speeds[kind] <= 0.0) continue;
          row.terms.emplace_back(worker_of(op, kind),
                                 problem_.utilization * work.speeds[kind] / work.items_per_s);
        }
        if (tier > 0) row.terms.emplace_back(share_of(op, tier - 1), 1.0);
        add_share(row, op, tier, -1.0);
        program_.rows.push_back(std::move(row));
      }
      if (goal_ == Goal::LostRate) continue;
      LinearRow someone{.lower = 1.0};
      for (size_t kind = 0; kind < problem_.kinds.size(); ++kind) {
        if (work.speeds[kind] > 0.0) someone.terms.emplace_back(worker_of(op, kind), 1.0);
      }
      program_.rows.push_back(std::move(someone));
    }
  }

  // The share that crosses a link is done before it by the operator that is read, and not yet by
  // the operator that reads. It is not negative, so no item flows back.
  void add_flows() {
    for (size_t tier = 0; !is_last(tier); ++tier) {
      const DeploymentProblem::Link& link = problem_.links[tier];
      LinearRow capacity{.upper = problem_.utilization};
      if (link.bytes_per_s <= 0.0) capacity.upper = 0.0;
      for (const DeploymentProblem::Edge& edge : problem_.edges) {
        const int flow = program_.add(
            {.cost = goal_ == Goal::Cost ? price_per_hour(link, edge.bytes_per_s) : 0.0});
        LinearRow crosses{.terms = {{flow, 1.0}, {share_of(size_t(edge.to), tier), 1.0}},
                          .lower = 0.0};
        LinearRow forward{.terms = {{share_of(size_t(edge.to), tier), 1.0}}, .upper = 0.0};
        if (!edge.is_source) {
          crosses.terms.emplace_back(share_of(size_t(edge.from), tier), -1.0);
          forward.terms.emplace_back(share_of(size_t(edge.from), tier), -1.0);
        } else if (edge.from <= int(tier)) {  // 1 - lost
          crosses.terms.emplace_back(lost_, 1.0);
          forward.terms.emplace_back(lost_, 1.0);
          crosses.lower = forward.upper = 1.0;
        }
        program_.rows.push_back(std::move(crosses));
        program_.rows.push_back(std::move(forward));
        capacity.terms.emplace_back(flow, edge.bytes_per_s / unit_of(link));
      }
      if (is_freed(Goal::FasterLink, tier)) capacity.terms.emplace_back(more_, -1.0);
      program_.rows.push_back(std::move(capacity));
    }
  }

  const DeploymentProblem& problem_;
  Goal goal_;
  int freed_;
  LinearProblem program_;
  int lost_ = 0, more_ = -1, first_share_ = 0;
};

}  // namespace

double Deployment::busy_share(const DeploymentProblem& problem, size_t op, size_t tier) const {
  double speed = 0.0;
  for (size_t kind = 0; kind < problem.kinds.size(); ++kind) {
    if (problem.kinds[kind].tier != int(tier)) continue;
    speed += double(workers[op][kind]) * problem.works[op].speeds[kind];
  }
  return speed > 0.0 ? problem.works[op].items_per_s * share_in(op, tier) / speed : 0.0;
}

DeploymentProblem deployment_problem(const ServedPipeline& pipeline, const Tiers& tiers,
                                     const ModelChoice& choice) {
  DeploymentProblem problem{.num_tiers = int(tiers.tiers.size()),
                            .utilization = pipeline.utilization};
  for (const WorkerKind& kind : tiers.kinds) {
    problem.kinds.push_back({kind.tier, kind.workers, kind.price_per_hour});
  }
  for (const Tier& tier : tiers.tiers) {
    problem.links.push_back({tier.bytes_per_s, tier.price_per_gb});
  }
  const std::vector<double> rates = pipeline.rates();
  for (size_t op = 0; op < pipeline.operators.size(); ++op) {
    const ServedModel& model = pipeline.operators[op].models[size_t(choice[op])];
    DeploymentProblem::Work& work = problem.works.emplace_back();
    work.items_per_s = rates[op];
    for (const WorkerKind& kind : tiers.kinds) {
      const auto speed = model.speeds.find(kind.name);
      const bool fits = model.memory_bytes <= kind.memory_bytes;
      work.speeds.push_back(fits && speed != model.speeds.end() ? speed->second : 0.0);
    }
    for (const OperatorInput& input : pipeline.operators[op].inputs) {
      problem.edges.push_back({input.is_source,
                               input.is_source
                                   ? tiers.tier_named(pipeline.sources[size_t(input.index)].tier)
                                   : input.index,
                               int(op), rates[op] * pipeline.input_bytes(input, choice)});
    }
  }
  return problem;
}

int Tiers::tier_named(const std::string& name) const {
  for (size_t i = 0; i < tiers.size(); ++i) {
    if (tiers[i].name == name) return int(i);
  }
  return -1;
}

LinearProblem deployment_program(const DeploymentProblem& problem) {
  return DeploymentProgram(problem, Goal::Cost).program();
}

std::optional<double> deployment_bound(const DeploymentProblem& problem, SearchBudget* budget) {
  double work = 0.0;
  const std::optional<LinearAnswer> relaxed = solve_relaxed(deployment_program(problem), &work);
  if (budget != nullptr) budget->left = std::max(budget->left - work, 0.0);
  if (!relaxed) return std::nullopt;
  return relaxed->cost;
}

std::optional<Deployment> deploy_work(const DeploymentProblem& problem, SearchBudget& budget,
                                      double cutoff) {
  const DeploymentProgram program(problem, Goal::Cost);
  const std::optional<LinearAnswer> answer = solve_integers(program.program(), budget, cutoff);
  if (!answer) return std::nullopt;
  return program.deployment(*answer);
}

std::optional<Deployment> deploy_work(const DeploymentProblem& problem) {
  SearchBudget budget;
  return deploy_work(problem, budget);
}

Relaxations relax_deployment(const DeploymentProblem& problem, SearchBudget& budget) {
  Relaxations relaxed;
  const DeploymentProgram rate(problem, Goal::LostRate);
  const std::optional<LinearAnswer> slower = solve_integers(rate.program(), budget);
  relaxed.rate_share = slower ? 1.0 - rate.lost(*slower) : 0.0;
  for (size_t kind = 0; kind < problem.kinds.size(); ++kind) {
    const DeploymentProgram program(problem, Goal::MoreWorkers, int(kind));
    const std::optional<LinearAnswer> answer = solve_integers(program.program(), budget);
    const bool is_enough = answer && program.more(*answer) < double(kMostWorkers);
    relaxed.more_workers.push_back(is_enough ? std::round(program.more(*answer)) : kUnlimited);
  }
  for (size_t tier = 0; tier + 1 < size_t(problem.num_tiers); ++tier) {
    const DeploymentProgram program(problem, Goal::FasterLink, int(tier));
    const std::optional<LinearAnswer> answer = solve_integers(program.program(), budget);
    const double now = unit_of(problem.links[tier]);
    const double used = problem.links[tier].bytes_per_s > 0.0 ? problem.utilization : 0.0;
    relaxed.link_bytes_per_s.push_back(
        answer ? now * (used + program.more(*answer)) / problem.utilization : kUnlimited);
  }
  return relaxed;
}

std::vector<std::string> broken_limits(const DeploymentProblem& problem,
                                       const Deployment& deployment) {
  std::vector<std::string> broken;
  const size_t num_tiers = size_t(problem.num_tiers);
  for (size_t op = 0; op < problem.works.size(); ++op) {
    for (size_t tier = 0; tier < num_tiers; ++tier) {
      const double share = deployment.share_in(op, tier);
      if (share < -kTolerance) broken.push_back(fmt::format("operator {} takes back work", op));
      const double busy = deployment.busy_share(problem, op, tier);
      if ((busy == 0.0 && share > kTolerance) || busy > problem.utilization + kTolerance) {
        broken.push_back(
            fmt::format("operator {} does {:.6g} of its items in tier {}, too many for "
                        "its workers there, who are busy for {:.6g}",
                        op, share, tier, busy));
      }
    }
    if (std::abs(deployment.done[op].back() - 1.0) > kTolerance) {
      broken.push_back(fmt::format("operator {} does not do all of its items", op));
    }
    for (size_t kind = 0; kind < problem.kinds.size(); ++kind) {
      if (deployment.workers[op][kind] != 0 && problem.works[op].speeds[kind] <= 0.0) {
        broken.push_back(fmt::format("workers of kind {} cannot serve operator {}", kind, op));
      }
    }
  }
  for (size_t kind = 0; kind < problem.kinds.size(); ++kind) {
    int64_t workers = 0;
    for (const std::vector<int64_t>& of_operator : deployment.workers) workers += of_operator[kind];
    if (workers > problem.kinds[kind].workers) {
      broken.push_back(fmt::format("{} workers of kind {}, of which there are {}", workers, kind,
                                   problem.kinds[kind].workers));
    }
  }
  for (size_t tier = 0; tier + 1 < num_tiers; ++tier) {
    const double most = problem.utilization * problem.links[tier].bytes_per_s;
    if (deployment.link_bytes_per_s[tier] > most + kTolerance * std::max(most, 1.0)) {
      broken.push_back(
          fmt::format("{:.6g} B/s cross the link behind tier {}, which may carry {:.6g}",
                      deployment.link_bytes_per_s[tier], tier, most));
    }
    for (const DeploymentProblem::Edge& edge : problem.edges) {
      const double from = edge.is_source ? (size_t(edge.from) <= tier ? 1.0 : 0.0)
                                         : deployment.done[size_t(edge.from)][tier];
      if (deployment.done[size_t(edge.to)][tier] > from + kTolerance) {
        broken.push_back(fmt::format("items flow back over the link behind tier {}", tier));
      }
    }
  }
  return broken;
}

}  // namespace trireme
