#pragma once

#include <map>
#include <string>
#include <vector>

#include "autoparallel/stage_mesh.h"
#include "autoparallel/value_move.h"
#include "graph/graph.h"
#include "graph/op_placement.h"

namespace trireme {

// Ops that one call computes (graph/fuse.h). All of them take the same role, so the problem has
// fewer nodes.
struct OpGroup {
  std::string name;         // of the op that is called: "attn.wo"
  std::vector<size_t> ops;  // of the stacked graph, rising
  std::vector<ParamId> params;
};

// A value that one op of the stacked graph makes and another reads; -1 is the unit's input or its
// output.
struct ValueUse {
  ValueId value = -1;
  int from = -1;  // group
  int to = -1;
  size_t maker = 0, reader = 0;  // op, where there is one
};

// A unit of a model before it is placed, with the placements that every role gives to its values.
class OpGroups {
 public:
  OpGroups(const Graph& stated, const StageShape& base);

  const Graph& graph() const { return graph_; }  // stacked
  const std::vector<OpGroup>& groups() const { return groups_; }
  // Uses between groups, and those inside a group: there the roles of both ends are the same.
  const std::vector<ValueUse>& uses() const { return uses_; }
  bool has_experts() const { return has_experts_; }

  // Return how an op with a role needs a value that it reads, or makes a value that it writes. The
  // strategies of the passes that place the unit say this.
  DimPlacement needed(size_t op, ValueId value, Role role) const;
  DimPlacement made(size_t op, ValueId value, Role role) const;
  // Return the same over both dims of a mesh, on which the op has these roles.
  MeshPlacement needed(const ValueUse& use, const Roles& roles) const;
  MeshPlacement made(const ValueUse& use, const Roles& roles) const;
  // True if a group reads and makes all values alike with both roles of its ops.
  bool placed_alike(int group, const Roles& a, const Roles& b) const;
  // True if a tp rank has an addend of the gradient of a parameter of the op; false if it has the
  // whole gradient.
  bool grad_is_addend(size_t op, ParamId param, Role role) const;

 private:
  void find_groups(const StageShape& base);
  void find_uses();

  Graph graph_;
  std::vector<OpGroup> groups_;
  std::vector<int> group_of_;  // [op]
  std::vector<ValueUse> uses_;
  bool has_experts_ = false;
  // [role][op][value of the op]
  struct OpPlacements {
    std::map<ValueId, DimPlacement> inputs, outputs;
    Strategy strategy;
  };
  std::map<Role, std::vector<OpPlacements>> placements_;
};

}  // namespace trireme
