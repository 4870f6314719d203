#pragma once

#include <map>
#include <vector>

#include "autoparallel/mesh_ways.h"
#include "autoparallel/way_bounds.h"

namespace trireme {

// A stage of a model with many kinds of units may take this share longer than the best one.
inline constexpr double kWaysTolerance = 0.002;

// Finds the best stages of a model with many kinds of units on meshes of one number of ranks. The
// time of a stage is at most 1 + tolerance times the least one.
class StageKnapsack {
 public:
  // A mesh, and one of its ways for each kind of unit of a stage.
  struct Choice {
    double seconds = kImpossible;
    int mesh = -1;  // -1 if nothing fits
    std::vector<int> ways;
  };

  // The meshes must outlive the object.
  StageKnapsack(const std::vector<MeshWays>& meshes, double limit_bytes, double tolerance)
      : meshes_(meshes), limit_bytes_(limit_bytes), tolerance_(tolerance) {}

  // Returns bounds of the least seconds of a stage. They cost little.
  SecondsBounds bounds(const std::vector<PlacedUnits>& units, int in_flight);
  Choice choose(const std::vector<PlacedUnits>& units, int in_flight);
  // True if a choice of these units fits, also with so many micro-batches in flight.
  bool fits(const std::vector<PlacedUnits>& units, const Choice& choice, int in_flight) const;

 private:
  const std::vector<WayBounds>& meshes_with(int in_flight);

  const std::vector<MeshWays>& meshes_;
  double limit_bytes_;
  double tolerance_;
  std::map<int, std::vector<WayBounds>> with_;  // [in flight][mesh]
};

}  // namespace trireme
