#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autoparallel/choice_problem.h"
#include "autoparallel/unit_setting.h"

namespace trireme {

// Has what a run must know of the ops of a group: their name, whether they have a matrix of
// weights, and all roles with which they read and make the same as in the plan. Their state may lie
// otherwise.
struct OpRoles {
  std::string op;
  bool has_matrix = false;
  std::vector<Roles> alike;
};

// One way to run a unit on a mesh. No other way beats it in seconds and both kinds of memory.
struct UnitWay {
  ChoiceCost cost;  // seconds include the step's share of a micro-batch
  double forward_s = 0.0;
  double step_s = 0.0;  // of a step
  double scratch_bytes = 0.0;
  Recompute recompute = Recompute::None;
  StateSharding sharding = StateSharding::Optimizer;
  std::vector<Roles> roles;       // [group]
  std::vector<OpRoles> ops = {};  // [group] of found stages alone
};

// A kind of unit: how often a stage has it, and how it runs.
struct PlacedUnits {
  int kind = 0;
  int first_unit = 0;
  int count = 0;
  UnitWay way;
};

struct StagePlan {
  int first_unit = 0, num_units = 0;
  int num_ranks = 0;
  int in_flight = 1;  // micro-batches whose activations live at a time
  StageMesh mesh;
  MeshPlacement stream = {};
  std::vector<PlacedUnits> units;
  std::optional<Roles> roles = {};  // of all ops, if they were chosen together

  double seconds = 0.0;  // of a micro-batch, the step's share included
  double forward_s = 0.0, backward_s = 0.0;
  double step_s = 0.0;
  double bytes = 0.0;  // of a rank
};

// Adds up the stage whose units take these ways, one for each element of `units`. backward_s, which
// needs the number of micro-batches, stays 0.
StagePlan stage_of(const std::vector<PlacedUnits>& units, const std::vector<const UnitWay*>& ways,
                   const StageMesh& mesh, const MeshPlacement& stream, int in_flight);

}  // namespace trireme
