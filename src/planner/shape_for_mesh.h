#pragma once

#include <optional>
#include <string_view>

#include "planner/run_plan.h"

namespace trireme {

// A mismatch between model and mesh, and the key that causes it.
struct MeshMisfit {
  std::string_view key;
  Error error;  // of kind Usage
};

// Fills in the part of plan.shape that follows from its mesh and configuration. Returns the first
// mismatch.
std::optional<MeshMisfit> shape_for_mesh(RunPlan& plan);

}  // namespace trireme
