#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "serving/linear_problem.h"

namespace trireme {
namespace {

constexpr double kRowTolerance = 1e-9;
constexpr double kPivotTolerance = 1e-9;
constexpr int kFreeSteps = 200;      // after these, Bland's rule chooses, which has no cycles
constexpr int kMostSteps = 100'000;  // never reached but for a mistake

// The dual simplex method on a dense table. The last column is the right side, the last row holds
// the reduced costs, which never become negative.
class DualSimplex {
 public:
  // Fixed variables have no column; all others are counted from their lower bounds.
  explicit DualSimplex(const LinearProblem& problem) : problem_(problem) {
    for (size_t i = 0; i < problem.variables.size(); ++i) {
      const LinearVariable& variable = problem.variables[i];
      const bool is_fixed = variable.upper <= variable.lower;
      column_of_.push_back(is_fixed ? -1 : int(variable_of_.size()));
      if (!is_fixed) variable_of_.push_back(int(i));
    }
    count_rows();
    columns_ = int(variable_of_.size()) + num_rows_ + 1;
    table_.assign(size_t(num_rows_ + 1) * size_t(columns_), 0.0);
    basis_.resize(size_t(num_rows_));
    fill();
  }

  std::optional<LinearAnswer> solve() {
    for (int step = 0; step < kMostSteps; ++step) {
      const bool by_index = step >= kFreeSteps;
      const int row = leaving_row(by_index);
      if (row < 0) return answer();
      const int column = entering_column(row, by_index);
      if (column < 0) return std::nullopt;
      pivot(row, column);
    }
    TRIREME_CHECK(false, "the dual simplex method does not end");
    return std::nullopt;
  }

  // Numbers of the table that were made or changed.
  double work() const { return (1.0 + pivots_) * double(table_.size()); }

 private:
  double& at(int row, int column) {
    return table_[size_t(row) * size_t(columns_) + size_t(column)];
  }
  int last_column() const { return columns_ - 1; }

  void count_rows() {
    for (const LinearRow& row : problem_.rows) {
      num_rows_ += int(row.upper < kUnlimited) + int(row.lower > -kUnlimited);
    }
    for (const int variable : variable_of_) {
      num_rows_ += int(problem_.variables[size_t(variable)].upper < kUnlimited);
    }
  }

  void fill() {
    int next = 0;
    const auto close = [&](double right_side) {
      at(next, int(variable_of_.size()) + next) = 1.0;  // its slack, which is in the basis
      at(next, last_column()) = right_side;
      basis_[size_t(next)] = int(variable_of_.size()) + next;
      ++next;
    };
    for (const LinearRow& row : problem_.rows) {
      double at_start = 0.0;
      for (const auto& [variable, factor] : row.terms) {
        at_start += factor * problem_.variables[size_t(variable)].lower;
      }
      for (const double sign : {1.0, -1.0}) {
        const double limit = sign > 0.0 ? row.upper : row.lower;
        if (std::isinf(limit)) continue;
        for (const auto& [variable, factor] : row.terms) {
          const int column = column_of_[size_t(variable)];
          if (column >= 0) at(next, column) += sign * factor;
        }
        close(sign * (limit - at_start));
      }
    }
    for (size_t column = 0; column < variable_of_.size(); ++column) {
      const LinearVariable& variable = problem_.variables[size_t(variable_of_[column])];
      at(num_rows_, int(column)) = variable.cost;
      if (variable.upper == kUnlimited) continue;
      at(next, int(column)) = 1.0;
      close(variable.upper - variable.lower);
    }
  }

  // The row that is violated most, or whose variable has the lowest index; -1: none is violated.
  int leaving_row(bool by_index) {
    int leaving = -1;
    double least = -kRowTolerance;
    for (int row = 0; row < num_rows_; ++row) {
      const double value = at(row, last_column());
      if (value >= least) continue;
      if (by_index) {
        if (leaving < 0 || basis_[size_t(row)] < basis_[size_t(leaving)]) leaving = row;
      } else {
        leaving = row;
        least = value;
      }
    }
    return leaving;
  }

  // The column that keeps all reduced costs above zero, of equal ones the largest factor or the
  // lowest index; -1: the row cannot be kept.
  int entering_column(int row, bool by_index) {
    int entering = -1;
    double least = kUnlimited, largest = 0.0;
    for (int column = 0; column < last_column(); ++column) {
      const double factor = at(row, column);
      if (factor >= -kPivotTolerance) continue;
      const double ratio = at(num_rows_, column) / -factor;
      const bool is_tie = std::abs(ratio - least) <= 1e-12;
      if (ratio < least - 1e-12 || (is_tie && !by_index && -factor > largest + 1e-12)) {
        least = std::min(ratio, least);
        largest = -factor;
        entering = column;
      }
    }
    return entering;
  }

  void pivot(int row, int column) {
    ++pivots_;
    const double factor = at(row, column);
    for (int c = 0; c < columns_; ++c) at(row, c) /= factor;
    for (int r = 0; r <= num_rows_; ++r) {
      const double times = at(r, column);
      if (r == row || times == 0.0) continue;
      for (int c = 0; c < columns_; ++c) at(r, c) -= times * at(row, c);
      at(r, column) = 0.0;
    }
    basis_[size_t(row)] = column;
  }

  LinearAnswer answer() {
    LinearAnswer answer;
    for (const LinearVariable& variable : problem_.variables) {
      answer.values.push_back(variable.lower);
    }
    for (int row = 0; row < num_rows_; ++row) {
      const size_t column = size_t(basis_[size_t(row)]);
      if (column >= variable_of_.size()) continue;
      answer.values[size_t(variable_of_[column])] += std::max(at(row, last_column()), 0.0);
    }
    for (size_t i = 0; i < answer.values.size(); ++i) {
      answer.cost += problem_.variables[i].cost * answer.values[i];
    }
    return answer;
  }

  const LinearProblem& problem_;
  std::vector<int> column_of_;    // [variable]; -1: fixed
  std::vector<int> variable_of_;  // [column]
  std::vector<int> basis_;        // [row] the column whose variable the row determines
  int num_rows_ = 0, columns_ = 0;
  double pivots_ = 0.0;
  std::vector<double> table_;
};

}  // namespace

std::optional<LinearAnswer> solve_relaxed(const LinearProblem& problem, double* work) {
  for (const LinearVariable& variable : problem.variables) {
    TRIREME_CHECK(variable.cost >= 0.0 && variable.lower >= 0.0, "a cost or a bound is negative");
    if (variable.upper < variable.lower - kRowTolerance) return std::nullopt;
  }
  DualSimplex simplex(problem);
  std::optional<LinearAnswer> answer = simplex.solve();
  if (work != nullptr) *work += simplex.work();
  return answer;
}

}  // namespace trireme
