#pragma once

#include <Cbc_C_Interface.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "autoparallel/choice_problem.h"
#include "base/check.h"

// The tests compare our solver with CBC, which solves the same problems as linear integer programs.
namespace trireme {

// A linear program in columns: every variable has a cost, bounds and the rows in which it stands.
class LinearProgram {
 public:
  // Adds a row, a sum that must be within [lower, upper], and returns its number.
  int add_row(double lower, double upper) {
    row_lower_.push_back(lower);
    row_upper_.push_back(upper);
    return int(row_lower_.size()) - 1;
  }
  // Adds a variable within [0, upper] and returns its number.
  int add_variable(double cost, double upper) {
    close_column();
    costs_.push_back(cost);
    column_upper_.push_back(upper);
    return int(costs_.size()) - 1;
  }
  // Adds a coefficient of the variable that was added last.
  void stands_in(int row, double factor) {
    rows_.push_back(row);
    factors_.push_back(factor);
  }

  // Returns the values of all variables at the optimum; empty: there is none. The first
  // `num_integers` variables are integers.
  std::vector<double> solve(int num_integers) {
    close_column();
    starts_.push_back(int(rows_.size()));
    const auto free = [](Cbc_Model* model) { Cbc_deleteModel(model); };
    const std::unique_ptr<Cbc_Model, decltype(free)> model(Cbc_newModel(), free);
    Cbc_setLogLevel(model.get(), 0);
    const std::vector<double> column_lower(costs_.size(), 0.0);
    Cbc_loadProblem(model.get(), int(costs_.size()), int(row_lower_.size()), starts_.data(),
                    rows_.data(), factors_.data(), column_lower.data(), column_upper_.data(),
                    costs_.data(), row_lower_.data(), row_upper_.data());
    for (int variable = 0; variable < num_integers; ++variable) {
      Cbc_setInteger(model.get(), variable);
    }
    // Presolving loses memory in CoinUtils 2.11, and these programs are small.
    Cbc_setParameter(model.get(), "presolve", "off");
    Cbc_setParameter(model.get(), "preprocess", "off");
    Cbc_setParameter(model.get(), "ratioGap", "0");
    Cbc_setParameter(model.get(), "allowableGap", "0");
    Cbc_solve(model.get());
    if (Cbc_isProvenInfeasible(model.get()) != 0) return {};
    TRIREME_CHECK(Cbc_isProvenOptimal(model.get()) != 0, "CBC stopped before it had an optimum");
    const double* values = Cbc_getColSolution(model.get());
    return {values, values + costs_.size()};
  }

 private:
  void close_column() {
    if (starts_.size() == costs_.size()) starts_.push_back(int(rows_.size()));
  }

  std::vector<double> row_lower_, row_upper_, costs_, column_upper_, factors_;
  std::vector<int> starts_, rows_;  // of every column: where it begins; and the rows
};

// CBC has absolute tolerances, so costs and bytes are scaled to about one.
inline double greatest_cost(const ChoiceProblem& problem) {
  double most = 0.0;
  const auto take = [&](double seconds) {
    if (seconds < kImpossible) most = std::max(most, seconds);
  };
  for (const ChoiceNode& node : problem.nodes) {
    for (const ChoiceCost& cost : node.choices) take(cost.seconds);
  }
  for (const ChoiceEdge& edge : problem.edges) {
    for (const double seconds : edge.seconds) take(seconds);
  }
  return most > 0.0 ? most : 1.0;
}

// Solves a choice problem by CBC as the linear integer program
//   min  sum_v c_v s_v + sum_vu R_vu e_vu
//   s_v one-hot;  sum_j e_vu[i, j] = s_v[i];  sum_i e_vu[i, j] = s_u[j];  e >= 0;
//   sum_v bytes_v s_v <= limit.
// The variables e need not be integers: if s is one-hot, they are products of its elements. CBC
// prints nothing and uses one thread. Returns nullopt if no assignment keeps the limit. Throws
// ContractError if CBC gives up.
inline std::optional<Assignment> solve_integer_program(const ChoiceProblem& problem,
                                                       const ChoiceLimit& limit) {
  LinearProgram program;
  const double unit_s = greatest_cost(problem) / 1000.0;
  const bool is_limited = limit.bytes < kImpossible;
  const double unit_bytes = is_limited && limit.bytes > 0.0 ? limit.bytes / 1000.0 : 1.0;

  std::vector<int> one_hot;                          // [node] row
  std::vector<std::vector<int>> from_rows, to_rows;  // [edge][choice of its ends] row
  for (size_t node = 0; node < problem.nodes.size(); ++node) {
    one_hot.push_back(program.add_row(1.0, 1.0));
  }
  for (const ChoiceEdge& edge : problem.edges) {
    const auto rows_of = [&](int node) {
      std::vector<int> rows;
      for (size_t i = 0; i < problem.nodes[size_t(node)].choices.size(); ++i) {
        rows.push_back(program.add_row(0.0, 0.0));
      }
      return rows;
    };
    from_rows.push_back(rows_of(edge.from));
    to_rows.push_back(rows_of(edge.to));
  }
  const int memory = is_limited ? program.add_row(-kImpossible, limit.bytes / unit_bytes) : -1;

  std::vector<int> first;  // [node] variable of its first choice
  int num_integers = 0;
  for (size_t node = 0; node < problem.nodes.size(); ++node) {
    first.push_back(num_integers);
    const std::vector<ChoiceCost>& choices = problem.nodes[node].choices;
    for (size_t choice = 0; choice < choices.size(); ++choice, ++num_integers) {
      const ChoiceCost& cost = choices[choice];
      const bool is_possible = cost.seconds < kImpossible;
      program.add_variable(is_possible ? cost.seconds / unit_s : 0.0, is_possible ? 1.0 : 0.0);
      program.stands_in(one_hot[node], 1.0);
      for (size_t e = 0; e < problem.edges.size(); ++e) {
        if (problem.edges[e].from == int(node)) program.stands_in(from_rows[e][choice], -1.0);
        if (problem.edges[e].to == int(node)) program.stands_in(to_rows[e][choice], -1.0);
      }
      if (is_limited) program.stands_in(memory, limit.bytes_of(cost) / unit_bytes);
    }
  }
  for (size_t e = 0; e < problem.edges.size(); ++e) {
    const size_t columns = to_rows[e].size();
    for (size_t pair = 0; pair < problem.edges[e].seconds.size(); ++pair) {
      const double seconds = problem.edges[e].seconds[pair];
      if (seconds == kImpossible) continue;
      program.add_variable(seconds / unit_s, 1.0);
      program.stands_in(from_rows[e][pair / columns], 1.0);
      program.stands_in(to_rows[e][pair % columns], 1.0);
    }
  }

  const std::vector<double> values = program.solve(num_integers);
  if (values.empty()) return std::nullopt;
  Assignment assignment;
  for (size_t node = 0; node < problem.nodes.size(); ++node) {
    const auto begin = values.begin() + first[node];
    const auto end = begin + std::ptrdiff_t(problem.nodes[node].choices.size());
    assignment.choices.push_back(int(std::max_element(begin, end) - begin));
  }
  assignment.cost = cost_of(problem, assignment.choices);
  return assignment;
}

}  // namespace trireme
