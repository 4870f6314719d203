#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace trireme {

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// A sum of variables with factors, which must lie within [lower, upper].
struct LinearRow {
  std::vector<std::pair<int, double>> terms;  // variable and factor; every variable at most once
  double lower = -kUnlimited;
  double upper = kUnlimited;
};

// A variable within [lower, upper], where lower >= 0 is finite and cost >= 0.
struct LinearVariable {
  double cost = 0.0;
  double lower = 0.0;
  double upper = kUnlimited;
  bool is_integer = false;
};

// min sum of cost x variable, under the rows. Because no cost is negative, all variables at their
// lower bounds are a start for the dual simplex method, which needs no first phase. Rows and costs
// should be scaled to about one.
struct LinearProblem {
  std::vector<LinearVariable> variables;
  std::vector<LinearRow> rows;

  int add(LinearVariable variable) {
    variables.push_back(variable);
    return int(variables.size()) - 1;
  }
};

struct LinearAnswer {
  std::vector<double> values;  // [variable]
  double cost = 0.0;
};

// Solves the problem with every variable continuous. Returns nullopt if no values keep all rows
// within 1e-9. Adds the numbers of the table that it has changed to `work`, if there is one.
std::optional<LinearAnswer> solve_relaxed(const LinearProblem& problem, double* work = nullptr);

// The work that answers may take, counted in numbers of the tables that are made or changed.
struct SearchBudget {
  double left = kUnlimited;
  double least = kUnlimited;  // that one problem may take in any case
  bool was_enough = true;     // else answers may not be the best ones
};

// Solves the problem with its integers by branch and bound over `solve_relaxed`. Returns nullopt if
// no answer costs less than `cutoff`. The answer is exact up to the tolerance of the rows, unless
// the budget is not enough: then it is the best one that was found with an eighth of the budget.
std::optional<LinearAnswer> solve_integers(const LinearProblem& problem, SearchBudget& budget,
                                           double cutoff = kUnlimited);

}  // namespace trireme
