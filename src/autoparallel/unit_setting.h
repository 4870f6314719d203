#pragma once

#include <cstdint>
#include <optional>

#include "autoparallel/stage_mesh.h"
#include "autoparallel/value_move.h"

namespace trireme {

// How ranks with Role::Data hold parameters, gradients and optimizer state.
enum class StateSharding : uint8_t {
  Nothing,     // ZeRO 0: all sum all gradients and update all parameters
  Optimizer,   // ZeRO 1: each updates a part of the parameters, which then are gathered
  Everything,  // ZeRO 3: each holds a part, and gathers the rest when it is used
};
inline constexpr int zero_level_of(StateSharding sharding) {
  return sharding == StateSharding::Nothing ? 0 : sharding == StateSharding::Optimizer ? 1 : 3;
}

// The prices of a unit depend on this and on the roles of its ops.
struct UnitSetting {
  StageMesh mesh;
  Recompute recompute = Recompute::None;
  StateSharding sharding = StateSharding::Optimizer;
  int64_t num_microbatches = 1;  // of a step: its sums of gradients and updates come once for all
  MeshPlacement stream = {DimPlacement::Invariant,
                          DimPlacement::Invariant};  // the residual stream between units
  bool shares_table = false;  // the stage has the table of a tied head with the embedding already
  // All ops have these roles, as in a uniform layout, where groups without experts have Role::Data
  // or Context instead of Expert. Nullopt: every group has all roles that it can have.
  std::optional<Roles> roles = {};
};

}  // namespace trireme
