#pragma once

#include <vector>

#include "autoparallel/stage_plan.h"

namespace trireme {

// The ways of all kinds of units on one mesh, between which the residual stream lies so.
struct MeshWays {
  StageMesh mesh;
  MeshPlacement stream;
  std::vector<std::vector<UnitWay>> kinds;  // [kind] the fastest first
};

}  // namespace trireme
