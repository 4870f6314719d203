#include "autoparallel/cluster_units.h"

#include <algorithm>
#include <limits>

namespace trireme {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

// Clusterings whose borders are at most `most_bytes` and whose operators have at most `most_work`.
struct Clusterings {
  const std::vector<UnitWork>& units;
  int num_operators;
  double most_work;
  double most_bytes = kNone;

  // Returns the clustering of the least cost, and writes this cost to `cost`. `join(cost before,
  // border, work)` returns the cost with one more operator.
  template <typename Join>
  std::vector<int> best(Join join, double& cost) const {
    const size_t count = units.size(), operators = size_t(num_operators);
    // least[r][end]: the least cost of r operators that end before unit `end`; last[r][end]: where
    // the last of them begins.
    std::vector<std::vector<double>> least(operators + 1, std::vector<double>(count + 1, kNone));
    std::vector<std::vector<size_t>> last(operators + 1, std::vector<size_t>(count + 1, 0));
    least[0][0] = 0.0;
    for (size_t r = 1; r <= operators; ++r) {
      for (size_t end = 1; end <= count; ++end) {
        double work = 0.0;
        for (size_t first = end; first-- > 0;) {
          work += units[first].work;
          if (work > most_work) break;
          const double border = first == 0 ? 0.0 : units[first].received_bytes;
          if (least[r - 1][first] == kNone || border > most_bytes) continue;
          const double joined = join(least[r - 1][first], border, work);
          if (joined >= least[r][end]) continue;
          least[r][end] = joined;
          last[r][end] = first;
        }
      }
    }
    cost = least[operators][count];
    std::vector<int> firsts(operators);
    for (size_t r = operators, end = count; cost < kNone && r > 0; --r) {
      end = last[r][end];
      firsts[r - 1] = int(end);
    }
    return firsts;
  }
};

}  // namespace

std::optional<std::vector<int>> cluster_units(const std::vector<UnitWork>& units, int num_operators,
                                              double slack) {
  double total = 0.0;
  for (const UnitWork& unit : units) total += unit.work;
  Clusterings clusterings{units, num_operators, (1.0 + slack) * total / num_operators};
  double cost = 0.0;
  clusterings.best([](double before, double border, double) { return std::max(before, border); },
                   cost);
  if (cost == kNone) return std::nullopt;
  clusterings.most_bytes = cost;
  return clusterings.best([](double before, double, double work) { return before + work * work; },
                          cost);
}

}  // namespace trireme
