#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "autoparallel/way_knapsack.h"

// Random stages of few kinds of units with few ways, and all their choices.

namespace trireme {

struct RandomStage {
  std::vector<PlacedUnits> units;
  std::vector<std::vector<UnitWay>> kinds;
  double limit_bytes = 0.0;
  int in_flight = 1;

  std::vector<KindCosts> costs() const {
    std::vector<KindCosts> all;
    for (const auto& ways : kinds) all.push_back(kind_costs(ways, in_flight));
    return all;
  }
};

// Whole numbers, so that sums are exact in any order. Faster ways tend to need more memory.
inline RandomStage random_stage(int num_kinds, int num_ways, int scratch, std::mt19937& random) {
  const auto below = [&](int count) { return double(random() % unsigned(count)); };
  RandomStage stage;
  stage.in_flight = 1 + int(random() % 3);
  double most = 0.0;
  for (int kind = 0; kind < num_kinds; ++kind) {
    std::vector<UnitWay> ways;
    for (int way = 0; way < num_ways; ++way) {
      const double seconds = 1000.0 + below(500);
      ways.push_back({.cost = {seconds, below(1000), 2000.0 - seconds + below(60)},
                      .scratch_bytes = below(scratch)});
    }
    stage.units.push_back({kind, kind, 1 + int(random() % 5), {}});
    most += stage.units.back().count * (1000.0 + 1060.0 * stage.in_flight);
    stage.kinds.push_back(std::move(ways));
  }
  stage.limit_bytes = std::floor(most * (0.3 + below(60) / 100.0));
  return stage;
}

// Returns the seconds of some ways, or kImpossible if they do not fit.
inline double seconds_of(const RandomStage& stage, const std::vector<int>& ways) {
  const ChoiceLimit limit{.in_flight = double(stage.in_flight)};
  double seconds = 0.0, bytes = 0.0, scratch = 0.0;
  for (size_t u = 0; u < ways.size(); ++u) {
    const UnitWay& way = stage.kinds[u][size_t(ways[u])];
    seconds += stage.units[u].count * way.cost.seconds;
    bytes += stage.units[u].count * limit.bytes_of(way.cost);
    scratch = std::max(scratch, way.scratch_bytes);
  }
  return bytes + scratch <= stage.limit_bytes ? seconds : kImpossible;
}

inline double least_of_all(const RandomStage& stage) {
  std::vector<int> ways(stage.kinds.size(), 0);
  double least = kImpossible;
  for (size_t u = 0; u < ways.size();) {
    least = std::min(least, seconds_of(stage, ways));
    for (u = 0; u < ways.size() && ++ways[u] == int(stage.kinds[u].size()); ++u) ways[u] = 0;
  }
  return least;
}

}  // namespace trireme
