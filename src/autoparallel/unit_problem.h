#pragma once

#include <map>
#include <optional>
#include <vector>

#include "autoparallel/choice_problem.h"
#include "autoparallel/group_price.h"
#include "autoparallel/op_groups.h"

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
};

// The parts of the cost of one choice of a group. Seconds are those of a micro-batch, except
// step_s.
struct GroupChoice {
  Roles roles = {};
  double compute_s = 0.0;  // F, B, W and what is computed again
  double inside_s = 0.0;   // redistributions inside the group
  double gather_s = 0.0;   // of parameters, and sums of their gradients (Everything)
  double forward_s = 0.0;  // the part of F in the three above
  double step_s = 0.0;     // of a step: sums of gradients and the update
  double scratch_bytes = 0.0;
};

// A unit as a choice problem: a node for every group of ops, one for every value that several
// groups read, the first for the input of the unit and the last for its output.
struct UnitProblem {
  ChoiceProblem problem;
  std::vector<std::vector<GroupChoice>> choices;  // [node][choice]
  std::vector<int> node_of_group;
  // [node] The choice by which a group has some roles; other roles may have led to the same.
  std::vector<std::map<Roles, int>> choice_of_roles;
  std::vector<std::vector<double>> edge_forward_s;  // [edge]: the part of F in its seconds
};

// Returns the same problem with these roles fixed for every group, as in a uniform layout: groups
// without experts have Role::Data or Context instead of Expert. Returns nullopt if some group
// cannot have them.
std::optional<ChoiceProblem> with_roles(const UnitProblem& unit, const StageMesh& mesh,
                                        const Roles& roles);

// The units of one kind: all layers that compute the same, the embedding, or the head.
class PricedUnit {
 public:
  PricedUnit(const Graph& stated, int64_t layer, const ModelSpec& model, const StageShape& base,
             const Hardware& hardware);
  PricedUnit(const PricedUnit&) = delete;
  PricedUnit& operator=(const PricedUnit&) = delete;

  const OpGroups& groups() const { return groups_; }
  const std::string& name() const { return groups_.graph().unit; }

  // Leaves out roles that a group cannot have on the mesh. If a group has no role left, the problem
  // has no assignment.
  UnitProblem problem(const UnitSetting& setting);

 private:
  friend class UnitProblemBuilder;

  const ModelSpec& model_;
  StageShape base_;
  const Hardware& hardware_;
  OpGroups groups_;
  GroupPrices prices_;
};

}  // namespace trireme
