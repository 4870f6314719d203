#include <algorithm>
#include <cmath>

#include "serving/linear_problem.h"

namespace trireme {
namespace {

constexpr double kWhole = 1e-7;           // a value so close to an integer is one
constexpr double kShareOfBudget = 0.125;  // that one program may take
constexpr double kLeastSaving = 1e-9;     // of the cost, that is worth another branch

class BranchAndBound {
 public:
  BranchAndBound(const LinearProblem& problem, double cutoff, double most_work)
      : problem_(problem), best_(cutoff), most_work_(most_work) {}

  std::optional<LinearAnswer> solve() {
    branch();
    return answer_;
  }
  double work() const { return work_; }
  bool is_done() const { return work_ <= most_work_; }

 private:
  // True if an answer of this cost is no better than the best one.
  bool is_beaten(double cost) const {
    return best_ < kUnlimited && cost >= best_ - kLeastSaving * std::max(1.0, std::abs(best_));
  }

  // Depth first. Bounds of `problem_` are those of the branch.
  void branch() {
    if (!is_done()) return;
    std::optional<LinearAnswer> relaxed = solve_relaxed(problem_, &work_);
    if (!relaxed || is_beaten(relaxed->cost)) return;
    const int variable = least_whole(relaxed->values);
    if (variable < 0) return take(std::move(*relaxed));
    try_rounded_up(relaxed->values);
    if (is_beaten(relaxed->cost)) return;
    LinearVariable& branched = problem_.variables[size_t(variable)];
    const double value = relaxed->values[size_t(variable)], fraction = value - std::floor(value);
    const double lower = branched.lower, upper = branched.upper;
    for (const bool up : {fraction >= 0.5, fraction < 0.5}) {
      if (up) branched.lower = std::ceil(value);
      if (!up) branched.upper = std::floor(value);
      branch();
      branched.lower = lower;
      branched.upper = upper;
    }
  }

  // The integer whose value is farthest from one; -1: all are integers.
  int least_whole(const std::vector<double>& values) const {
    int found = -1;
    double farthest = kWhole;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!problem_.variables[i].is_integer) continue;
      const double distance = std::abs(values[i] - std::round(values[i]));
      if (distance > farthest) {
        farthest = distance;
        found = int(i);
      }
    }
    return found;
  }

  // More workers do the work as well, so rounding up often gives an answer.
  void try_rounded_up(const std::vector<double>& values) {
    fix_integers(values, [](double value) { return std::ceil(value - kWhole); });
  }

  // The integers are exact, and the other variables are chosen for them.
  void take(LinearAnswer relaxed) {
    fix_integers(relaxed.values, [](double value) { return std::round(value); });
  }

  template <typename Round>
  void fix_integers(const std::vector<double>& values, const Round& round) {
    LinearProblem fixed = problem_;
    for (size_t i = 0; i < values.size(); ++i) {
      LinearVariable& variable = fixed.variables[i];
      if (variable.is_integer) variable.lower = variable.upper = round(values[i]);
    }
    std::optional<LinearAnswer> answer = solve_relaxed(fixed, &work_);
    if (!answer || is_beaten(answer->cost)) return;
    best_ = answer->cost;
    answer_ = std::move(answer);
  }

  LinearProblem problem_;
  double best_;
  double most_work_, work_ = 0.0;
  std::optional<LinearAnswer> answer_;
};

}  // namespace

std::optional<LinearAnswer> solve_integers(const LinearProblem& problem, SearchBudget& budget,
                                           double cutoff) {
  const double most_work = std::max(kShareOfBudget * budget.left, budget.least);
  BranchAndBound search(problem, cutoff, most_work);
  std::optional<LinearAnswer> answer = search.solve();
  budget.left = std::max(budget.left - search.work(), 0.0);
  budget.was_enough = budget.was_enough && search.is_done();
  return answer;
}

}  // namespace trireme
