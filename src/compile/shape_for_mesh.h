#pragma once

#include <optional>
#include <string_view>

#include "compile/run_plan.h"

namespace trireme {

// What does not fit the model, and the key that asks for it.
struct MeshMisfit {
  std::string_view key;
  Error error;  // Usage
};

// Fills in what of a plan's shape follows from its mesh and configuration; tells the first thing
// that cannot be.
std::optional<MeshMisfit> shape_for_mesh(RunPlan& plan);

}  // namespace trireme
