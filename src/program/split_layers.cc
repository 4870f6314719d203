#include "program/split_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace trireme {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// best[s][n] is the lowest cost of the first n layers on stages 0..s, with stage costs joined by
// `combine`. taken[s][n] is the number of layers on stage s in that split.
struct Table {
  std::vector<std::vector<double>> best;
  std::vector<std::vector<int>> taken;
};

class Splitter {
 public:
  Splitter(std::span<const double> layer_costs, int num_stages, const EndCosts& ends,
           std::span<const double> factors)
      : num_layers_(static_cast<int>(layer_costs.size())),
        num_stages_(num_stages),
        ends_(ends),
        factors_(factors),
        prefix_(layer_costs.size() + 1, 0.0) {
    for (int i = 0; i < num_layers_; ++i) prefix_[i + 1] = prefix_[i] + layer_costs[i];
  }

  std::vector<int> run() const {
    const auto larger = [](double a, double b) { return std::max(a, b); };
    const double dearest = fill(larger, kInfinity).best[num_stages_ - 1][num_layers_];
    const auto squares = [](double sum, double cost) { return sum + cost * cost; };
    // Prefix sums are rounded, so the limit is raised slightly: the optimum itself must pass it.
    const Table table = fill(squares, dearest + 1e-12 * std::abs(dearest));
    std::vector<int> split(num_stages_);
    int left = num_layers_;
    for (int stage = num_stages_ - 1; stage >= 0; --stage) {
      split[stage] = table.taken[stage][left];
      left -= split[stage];
    }
    return split;
  }

 private:
  double cost(int stage, int first, int end) const {
    const double once = prefix_[end] - prefix_[first] + (stage == 0 ? ends_.first : 0) +
                        (stage == num_stages_ - 1 ? ends_.last : 0);
    return factors_.empty() ? once : factors_[size_t(stage)] * once;
  }

  int least_layers(int stage) const {
    const bool is_end = stage > 0 && stage == num_stages_ - 1;
    return is_end && !ends_.last_needs_layer ? 0 : 1;
  }

  int least_layers_behind(int stage) const {
    return stage == num_stages_ - 1 ? 0 : num_stages_ - 2 - stage + least_layers(num_stages_ - 1);
  }

  template <typename Combine>
  Table fill(Combine combine, double limit) const {
    Table table;
    table.best.assign(num_stages_, std::vector<double>(num_layers_ + 1, kInfinity));
    table.taken.assign(num_stages_, std::vector<int>(num_layers_ + 1, 0));
    for (int stage = 0; stage < num_stages_; ++stage) {
      const int least = least_layers(stage);
      const int highest_end = num_layers_ - least_layers_behind(stage);
      for (int end = stage + least; end <= highest_end; ++end) {
        const int lowest_first = stage == 0 ? 0 : stage;
        const int highest_first = stage == 0 ? 0 : end - least;
        for (int first = highest_first; first >= lowest_first; --first) {
          const double here = cost(stage, first, end);
          // Costs are not negative, so more layers never cost less.
          if (here > limit || combine(0.0, here) >= table.best[stage][end]) break;
          const double before = stage == 0 ? 0.0 : table.best[stage - 1][first];
          const double total = combine(before, here);
          if (total < table.best[stage][end]) {
            table.best[stage][end] = total;
            table.taken[stage][end] = end - first;
          }
        }
      }
    }
    return table;
  }

  int num_layers_;
  int num_stages_;
  EndCosts ends_;
  std::span<const double> factors_;
  std::vector<double> prefix_;
};

}  // namespace

Result<std::vector<int>> split_layers(std::span<const double> layer_costs, int num_stages,
                                      const EndCosts& ends, std::span<const double> factors) {
  const size_t num_layers = layer_costs.size();
  if (num_stages < 1) {
    return Error{ErrorKind::Usage, fmt::format("stages = {} must be at least 1", num_stages)};
  }
  const size_t most_stages = num_layers + (ends.last_needs_layer || num_layers == 0 ? 0 : 1);
  if (most_stages < static_cast<size_t>(num_stages)) {
    return Error{
        ErrorKind::Infeasible,
        fmt::format("more stages than layers: {} stages (ranks x chunks) need at least one "
                    "layer each{}, the model has {}; try at most {} stages",
                    num_stages, ends.last_needs_layer ? "" : " but for the last one", num_layers,
                    most_stages)};
  }
  for (const double cost : layer_costs) {
    if (std::isfinite(cost) && cost >= 0) continue;
    return Error{ErrorKind::Usage, fmt::format("a layer's cost cannot be {}", cost)};
  }
  return Splitter(layer_costs, num_stages, ends, factors).run();
}

}  // namespace trireme
