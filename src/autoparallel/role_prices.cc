#include "autoparallel/role_prices.h"

#include <algorithm>
#include <map>

#include "autoparallel/eliminate_choices.h"
#include "autoparallel/stage_settings.h"

namespace trireme {
namespace {

// Returns the problem in which a node has only one of its choices.
ChoiceProblem with_choice(ChoiceProblem problem, int node, int choice) {
  std::vector<ChoiceCost>& choices = problem.nodes[size_t(node)].choices;
  const size_t count = choices.size();
  choices = {choices[size_t(choice)]};
  for (ChoiceEdge& edge : problem.edges) {
    if (edge.from != node && edge.to != node) continue;
    std::vector<double> seconds;
    if (edge.from == node) {
      const size_t columns = edge.seconds.size() / count;
      const auto row = edge.seconds.begin() + std::ptrdiff_t(size_t(choice) * columns);
      seconds.assign(row, row + std::ptrdiff_t(columns));
    } else {
      for (size_t i = size_t(choice); i < edge.seconds.size(); i += count) {
        seconds.push_back(edge.seconds[i]);
      }
    }
    edge.seconds = std::move(seconds);
  }
  return problem;
}

// Returns the assignment of the fewest bytes.
std::optional<Assignment> smallest(const ChoiceProblem& problem, const ChoiceLimit& limit) {
  ChoiceProblem of_bytes = problem;
  for (ChoiceNode& node : of_bytes.nodes) {
    for (ChoiceCost& cost : node.choices) cost = {limit.bytes_of(cost), 0.0, 0.0};
  }
  for (ChoiceEdge& edge : of_bytes.edges) {
    for (double& seconds : edge.seconds) seconds = seconds == kImpossible ? kImpossible : 0.0;
  }
  const auto found = least_seconds(of_bytes, {});
  if (!found) return std::nullopt;
  return Assignment{found->choices, cost_of(problem, found->choices)};
}

// Returns the seconds of the redistributions before and behind an op.
double seconds_of_edges(const ChoiceProblem& problem, const std::vector<int>& choices, int node) {
  double sum = 0.0;
  for (const ChoiceEdge& edge : problem.edges) {
    if (edge.from != node && edge.to != node) continue;
    const size_t columns = problem.nodes[size_t(edge.to)].choices.size();
    sum += edge.seconds[size_t(choices[size_t(edge.from)]) * columns +
                        size_t(choices[size_t(edge.to)])];
  }
  return sum;
}

bool is_cheaper(const RolePrice& a, const RolePrice& b) {
  return a.stage_s != b.stage_s ? a.stage_s < b.stage_s : a.bytes < b.bytes;
}

}  // namespace

// The stage without the units whose roles are priced.
struct StageSearch::RestOfStage {
  double seconds = 0.0, bytes = 0.0, scratch_bytes = 0.0;
  double count = 1.0;  // of the units that are priced
  double in_flight = 1.0;
};

// Returns the price of a choice of a group in one setting: that of the fastest stage that fits, or
// of the smallest one if none fits.
RolePrice StageSearch::price_of_choice(const Kind& kind, const UnitProblem& unit,
                                       const UnitSetting& setting, const RestOfStage& rest,
                                       int node, int choice) const {
  const ChoiceProblem forced = with_choice(unit.problem, node, choice);
  const auto priced = [&](Assignment found) {
    found.choices[size_t(node)] = choice;
    const UnitWay way = way_of(kind, unit, found, setting);
    const GroupChoice& own = unit.choices[size_t(node)][size_t(choice)];
    RolePrice price{.roles = own.roles};
    price.stage_s = rest.seconds + rest.count * way.cost.seconds;
    price.bytes = rest.bytes +
                  rest.count * ChoiceLimit{.in_flight = rest.in_flight}.bytes_of(way.cost) +
                  std::max(rest.scratch_bytes, way.scratch_bytes);
    price.compute_s = own.compute_s;
    price.communication_s = own.inside_s + own.gather_s + own.step_s / double(num_microbatches_) +
                            seconds_of_edges(unit.problem, found.choices, node);
    return price;
  };
  ChoiceLimit limit{.bytes = (run_.memory_bytes - rest.bytes - rest.scratch_bytes) / rest.count,
                    .in_flight = rest.in_flight};
  if (run_.memory_bytes == kImpossible) limit.bytes = kImpossible;
  if (const auto fastest = least_seconds(forced, limit)) {
    const RolePrice price = priced(*fastest);
    if (price.bytes <= run_.memory_bytes) return price;
    // The unit's own scratch is too large, which the limit does not know.
    limit.same_bytes = same_bytes_;
    for (const Assignment& other : best_tradeoffs(forced, limit)) {
      const RolePrice smaller = priced(other);
      if (smaller.bytes <= run_.memory_bytes) return smaller;
    }
  }
  const auto fewest = smallest(forced, limit);
  if (!fewest) return {.roles = unit.choices[size_t(node)][size_t(choice)].roles};
  RolePrice price = priced(*fewest);
  if (price.bytes > run_.memory_bytes) price.stage_s = kImpossible;
  return price;
}

std::vector<std::vector<RolePrice>> StageSearch::role_prices(const StagePlan& stage, size_t index) {
  const PlacedUnits& units = stage.units[index];
  Kind& kind = *kinds_[size_t(units.kind)];
  RestOfStage rest{.count = double(units.count), .in_flight = double(stage.in_flight)};
  for (size_t u = 0; u < stage.units.size(); ++u) {
    if (u == index) continue;
    const PlacedUnits& other = stage.units[u];
    rest.seconds += other.count * other.way.cost.seconds;
    rest.bytes += other.count * ChoiceLimit{.in_flight = rest.in_flight}.bytes_of(other.way.cost);
    rest.scratch_bytes = std::max(rest.scratch_bytes, other.way.scratch_bytes);
  }
  std::vector<std::map<Roles, RolePrice>> best(units.way.roles.size());  // [group]
  for (UnitSetting& setting : settings_of(kind, stage.mesh)) {
    setting.stream = stage.stream;
    const UnitProblem unit = unit_problem(kind.unit, setting);
    for (size_t group = 0; group < best.size(); ++group) {
      const int node = unit.node_of_group[group];
      std::map<int, RolePrice> of_choice;
      for (const auto& [roles, choice] : unit.choice_of_roles[size_t(node)]) {
        const auto [priced, is_new] = of_choice.try_emplace(choice);
        if (is_new) priced->second = price_of_choice(kind, unit, setting, rest, node, choice);
        const auto [known, is_first] = best[group].try_emplace(roles, priced->second);
        if (!is_first && is_cheaper(priced->second, known->second)) known->second = priced->second;
        known->second.roles = roles;
      }
    }
  }
  std::vector<std::vector<RolePrice>> prices(best.size());
  for (size_t group = 0; group < best.size(); ++group) {
    for (auto& [roles, price] : best[group]) {
      price.is_chosen = roles == units.way.roles[group];
      prices[group].push_back(price);
    }
    std::stable_sort(prices[group].begin(), prices[group].end(),
                     [](const RolePrice& a, const RolePrice& b) {
                       return a.is_chosen != b.is_chosen ? a.is_chosen : is_cheaper(a, b);
                     });
  }
  return prices;
}

std::vector<std::vector<RolePrice>> role_prices(ClusterStages& search, const StagePlan& stage,
                                                int first_rank, size_t unit) {
  return search.slowest_search(first_rank, stage).role_prices(stage, unit);
}

std::vector<StageRolePrices> role_prices(const PlannedRun& run, const FoundPlan& plan) {
  ClusterStages search(run, plan.sequences);
  std::vector<StageRolePrices> prices;
  int rank = 0;
  for (const StagePlan& stage : plan.stages) {
    StageRolePrices& of_stage = prices.emplace_back();
    for (size_t unit = 0; unit < stage.units.size(); ++unit) {
      of_stage.push_back(role_prices(search, stage, rank, unit));
    }
    rank += stage.num_ranks;
  }
  return prices;
}

}  // namespace trireme
