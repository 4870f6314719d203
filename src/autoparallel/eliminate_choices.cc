#include "autoparallel/eliminate_choices.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>

namespace trireme {
namespace {

// A cost and the trace of the choices that lead to it: one choice of a node, or two partial
// assignments joined.
struct Point {
  ChoiceCost cost;
  int64_t trace = -1;
  int choice = -1;  // while the choices of a node are compared
};
struct Trace {
  int node = -1;
  int choice = -1;
  int64_t left = -1, right = -1;
};

// Has an entry for every combination of the choices of the nodes in its scope: those costs of the
// removed nodes that no other cost beats. The choice of the last node of the scope varies fastest.
struct Table {
  std::vector<int> scope;  // rising
  std::vector<std::vector<Point>> entries;
};

// Removes every point that another one beats or equals, where bytes that differ by the share
// `same_bytes` are equal. Sorts the others, the fewest seconds first.
void keep_best(std::vector<Point>& points, double same_bytes) {
  std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
    const ChoiceCost &x = a.cost, &y = b.cost;
    if (x.seconds != y.seconds) return x.seconds < y.seconds;
    if (x.state_bytes != y.state_bytes) return x.state_bytes < y.state_bytes;
    return x.activation_bytes < y.activation_bytes;
  });
  std::map<double, double> least_activations;  // of the points so far, by state: both strict
  size_t kept = 0;
  for (const Point& point : points) {
    const double state = point.cost.state_bytes, activations = point.cost.activation_bytes;
    const double most = 1.0 + same_bytes;
    const auto above = least_activations.upper_bound(most * state);
    if (above != least_activations.begin() && std::prev(above)->second <= most * activations) {
      continue;
    }
    auto next = least_activations.upper_bound(state);
    while (next != least_activations.end() && next->second >= activations) {
      next = least_activations.erase(next);
    }
    least_activations[state] = activations;
    points[kept++] = point;
  }
  points.resize(kept);
}

class Elimination {
 public:
  Elimination(const ChoiceProblem& problem, const ChoiceLimit& limit)
      : problem_(problem), limit_(limit) {
    if (limit.seconds < kImpossible) find_spare();
    for (size_t node = 0; node < problem.nodes.size(); ++node) add_node(int(node));
    for (const ChoiceEdge& edge : problem.edges) add_edge(edge);
  }

  std::vector<Assignment> run() {
    if (spare_s_ < 0.0) return {};
    std::set<int> left;
    for (size_t node = 0; node < problem_.nodes.size(); ++node) left.insert(int(node));
    while (!left.empty()) {
      const int node = cheapest(left);
      left.erase(node);
      remove(node);
    }
    Table all{{}, {{Point{}}}};
    for (const Table& table : tables_) all = joined(all, table);
    keep_best(all.entries.front(), limit_.same_bytes);
    std::vector<Assignment> found;
    for (const Point& point : all.entries.front()) {
      Assignment assignment{std::vector<int>(problem_.nodes.size()), point.cost};
      assignment.cost.seconds += least_s_;
      follow(point.trace, assignment.choices);
      found.push_back(std::move(assignment));
    }
    return found;
  }

  // Follows the order of removal without computing costs.
  double largest() {
    std::set<int> left;
    for (size_t node = 0; node < problem_.nodes.size(); ++node) left.insert(int(node));
    double most = 1.0;
    while (!left.empty()) {
      const int node = cheapest(left);
      left.erase(node);
      const std::vector<int> scope = scope_around(node);
      most = std::max(most, size_of(scope) * double(num_choices(node)));
      std::erase_if(tables_, [&](const Table& table) { return has(table, node); });
      tables_.push_back({scope, {}});
    }
    return most;
  }

 private:
  // Every node takes at least the seconds of its fastest choice. What a choice or an edge takes
  // beyond them is spent of the seconds that the limit leaves, so partial sums can be compared with
  // these.
  void find_spare() {
    for (const ChoiceNode& node : problem_.nodes) {
      double least = kImpossible;
      for (const ChoiceCost& cost : node.choices) least = std::min(least, cost.seconds);
      least_of_node_.push_back(least);
      least_s_ += least;
    }
    spare_s_ = limit_.seconds - least_s_;
  }
  bool keeps_limit(const ChoiceCost& cost) const {
    return limit_.bytes_of(cost) <= limit_.bytes && cost.seconds <= spare_s_;
  }

  size_t num_choices(int node) const { return problem_.nodes[size_t(node)].choices.size(); }
  double size_of(const std::vector<int>& scope) const {
    double size = 1.0;
    for (const int node : scope) size *= double(num_choices(node));
    return size;
  }
  static bool has(const Table& table, int node) {
    return std::binary_search(table.scope.begin(), table.scope.end(), node);
  }

  void add_node(int node) {
    Table table{{node}, {}};
    const std::vector<ChoiceCost>& choices = problem_.nodes[size_t(node)].choices;
    for (size_t choice = 0; choice < choices.size(); ++choice) {
      table.entries.push_back({});
      ChoiceCost cost = choices[choice];
      if (cost.seconds == kImpossible) continue;
      if (!least_of_node_.empty()) cost.seconds -= least_of_node_[size_t(node)];
      if (cost.seconds > spare_s_) continue;
      traces_.push_back({node, int(choice)});
      table.entries.back().push_back({cost, int64_t(traces_.size()) - 1});
    }
    tables_.push_back(std::move(table));
  }

  void add_edge(const ChoiceEdge& edge) {
    const bool is_rising = edge.from < edge.to;
    Table table{{std::min(edge.from, edge.to), std::max(edge.from, edge.to)}, {}};
    const size_t rows = num_choices(edge.from), columns = num_choices(edge.to);
    table.entries.resize(rows * columns);
    for (size_t row = 0; row < rows; ++row) {
      for (size_t column = 0; column < columns; ++column) {
        const double seconds = edge.seconds[row * columns + column];
        if (seconds == kImpossible || seconds > spare_s_) continue;
        table.entries[is_rising ? row * columns + column : column * rows + row].push_back(
            {{seconds, 0.0, 0.0}, -1});
      }
    }
    tables_.push_back(std::move(table));
  }

  // Returns the other nodes of all tables that have this one, rising.
  std::vector<int> scope_around(int node) const {
    std::set<int> scope;
    for (const Table& table : tables_) {
      if (has(table, node)) scope.insert(table.scope.begin(), table.scope.end());
    }
    scope.erase(node);
    return {scope.begin(), scope.end()};
  }

  int cheapest(const std::set<int>& left) const {
    int found = -1;
    double least = kImpossible;
    for (const int node : left) {
      const double size = size_of(scope_around(node));
      if (size < least) {
        least = size;
        found = node;
      }
    }
    return found;
  }

  // Returns the index of an entry in a table. `choices` has the choice of every node.
  size_t index_in(const Table& table, const std::vector<int>& choices) const {
    size_t index = 0;
    for (const int node : table.scope) {
      index = index * num_choices(node) + size_t(choices[size_t(node)]);
    }
    return index;
  }

  void remove(int node) {
    std::vector<Table> joining;
    std::erase_if(tables_, [&](Table& table) {
      if (!has(table, node)) return false;
      joining.push_back(std::move(table));
      return true;
    });
    std::set<int> scope;
    for (const Table& table : joining) scope.insert(table.scope.begin(), table.scope.end());
    scope.erase(node);
    Table result{{scope.begin(), scope.end()}, {}};
    std::vector<int> choices(problem_.nodes.size());
    const size_t num_entries = size_t(size_of(result.scope));
    result.entries.reserve(num_entries);
    for (size_t entry = 0; entry < num_entries; ++entry) {
      size_t rest = entry;
      for (size_t i = result.scope.size(); i-- > 0;) {
        const int at = result.scope[i];
        choices[size_t(at)] = int(rest % num_choices(at));
        rest /= num_choices(at);
      }
      result.entries.push_back(best_of_choices(node, joining, choices));
    }
    tables_.push_back(std::move(result));
  }

  // Returns the points of all choices of a node that no other beats, for fixed choices of its
  // neighbours.
  std::vector<Point> best_of_choices(int node, const std::vector<Table>& joining,
                                     std::vector<int>& choices) {
    std::vector<Point> points;
    std::vector<std::vector<int64_t>> alike(
        num_choices(node));  // [choice] traces of all its points
    for (size_t choice = 0; choice < num_choices(node); ++choice) {
      choices[size_t(node)] = int(choice);
      std::vector<Point> sums{Point{}};
      for (const Table& table : joining) {  // those with one point are the same for all sums
        const std::vector<Point>& own = table.entries[index_in(table, choices)];
        if (own.size() != 1) {
          sums = sums_of(sums, own);
          continue;
        }
        for (Point& sum : sums) sum.cost += own.front().cost;
        if (own.front().trace >= 0) alike[choice].push_back(own.front().trace);
      }
      for (Point& sum : sums) {
        if (!keeps_limit(sum.cost)) continue;
        points.push_back(sum);
        points.back().choice = int(choice);
      }
    }
    keep_best(points, limit_.same_bytes);
    std::vector<int64_t> joined(num_choices(node), -1);
    for (Point& point : points) {
      int64_t& trace = joined[size_t(point.choice)];
      if (trace < 0) {
        for (const int64_t part : alike[size_t(point.choice)]) trace = join(trace, part);
      }
      point.trace = join(point.trace, trace);
    }
    return points;
  }

  int64_t join(int64_t left, int64_t right) {
    if (left < 0 || right < 0) return left < 0 ? right : left;
    traces_.push_back({-1, -1, left, right});
    return int64_t(traces_.size()) - 1;
  }

  // Returns every sum of two points that keeps the limit. Costs are never negative, so a sum above
  // the limit stays above it.
  std::vector<Point> sums_of(const std::vector<Point>& a, const std::vector<Point>& b) {
    std::vector<Point> sums;
    for (const Point& x : a) {
      for (const Point& y : b) {
        const ChoiceCost cost = x.cost + y.cost;
        if (!keeps_limit(cost)) continue;
        sums.push_back({cost, join(x.trace, y.trace)});
      }
    }
    if (a.size() > 1 && b.size() > 1) keep_best(sums, limit_.same_bytes);
    return sums;
  }
  Table joined(const Table& a, const Table& b) {
    return {{}, {sums_of(a.entries.front(), b.entries.front())}};
  }

  void follow(int64_t trace, std::vector<int>& choices) const {
    if (trace < 0) return;
    const Trace& at = traces_[size_t(trace)];
    if (at.node >= 0) {
      choices[size_t(at.node)] = at.choice;
      return;
    }
    follow(at.left, choices);
    follow(at.right, choices);
  }

  const ChoiceProblem& problem_;
  ChoiceLimit limit_;
  // If seconds are limited, those of all nodes are less the least ones:
  std::vector<double> least_of_node_;
  double least_s_ = 0.0, spare_s_ = kImpossible;
  std::vector<Table> tables_;
  std::vector<Trace> traces_;
};

// Joins state and activations to one number of bytes, so that fewer points are kept.
ChoiceProblem with_joined_memory(ChoiceProblem problem, const ChoiceLimit& limit) {
  const bool is_limited = limit.bytes < kImpossible;
  for (ChoiceNode& node : problem.nodes) {
    for (ChoiceCost& cost : node.choices) {
      cost = {cost.seconds, is_limited ? limit.bytes_of(cost) : 0.0, 0.0};
    }
  }
  return problem;
}

}  // namespace

std::vector<Assignment> best_tradeoffs(const ChoiceProblem& problem, const ChoiceLimit& limit) {
  return Elimination(problem, limit).run();
}

std::optional<Assignment> least_seconds(const ChoiceProblem& problem, const ChoiceLimit& limit) {
  const std::vector<Assignment> found =
      Elimination(with_joined_memory(problem, limit), {limit.bytes, 0.0, limit.seconds}).run();
  if (found.empty()) return std::nullopt;
  return Assignment{found.front().choices, cost_of(problem, found.front().choices)};
}

double largest_table(const ChoiceProblem& problem) { return Elimination(problem, {}).largest(); }

}  // namespace trireme
