#pragma once

#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
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
  // All ops have these roles, as in a uniform layout, where groups without experts have Role::Data
  // or Context instead of Expert. Nullopt: every group has all roles that it can have.
  std::optional<Roles> roles = {};
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
  // Returns the problems of a setting in which the residual stream lies in each of these ways:
  // [stream]. They are empty if already the fastest choices of all groups take more than `most_s`.
  std::vector<UnitProblem> problems(const UnitSetting& setting,
                                    const std::vector<MeshPlacement>& streams,
                                    double most_s = kImpossible);
  // Returns the sum of the seconds of the fastest choices of all groups, without redistributions
  // between them. No assignment of the problem takes less.
  double least_seconds_of_groups(const UnitSetting& setting);

 private:
  friend class UnitProblemBuilder;
  // The seconds of collectives on the dims of one mesh, which every setting asks for.
  struct Moves {
    StageMesh mesh;
    // [value, from, to] forward and backward
    std::map<std::tuple<ValueId, MeshPlacement, MeshPlacement>, std::array<double, 2>> of_value;
    // [dim, bytes] of an all-gather and an all-reduce
    std::map<std::pair<size_t, double>, std::array<double, 2>> of_param;
  };
  Moves& moves_on(const StageMesh& mesh);

  const ModelSpec& model_;
  StageShape base_;
  const Hardware& hardware_;
  OpGroups groups_;
  GroupPrices prices_;
  Moves moves_;
};

}  // namespace trireme
