#pragma once

#include <string>
#include <vector>

#include "base/box_elements.h"
#include "base/shape.h"
#include "graph/graph.h"
#include "graph/model_shard.h"
#include "schema/placement.h"

namespace trireme {

// Where a rank's part of a parameter lies in the whole one, over the tp axis. Ranks of cp hold the
// same part, unless they share the experts, and an addend of its gradient: that of their tokens.
struct ParamLayout {
  std::string name;
  Placement placement;  // shard(d), or invariant
  Shape global;         // of the whole parameter
  Shape begin, extent;  // the box of it that this rank holds
  // Neighbouring tp ranks, counted from a multiple of `copies`, that hold this same box. The first
  // of them counts for the norm of the gradient and writes checkpoints.
  int copies = 1;
  bool is_first_copy = true;
  // After the last W this rank has one of so many addends of the gradient, its neighbours counted
  // from a multiple of `grad_addends` have the others; before Step they are summed, once. 1: it has
  // the gradient.
  int grad_addends = 1;
  // The same over cp, where they are every (cp / cp_addends)-th rank.
  int cp_addends = 1;
};

// Returns the places of the elements of the box in the whole parameter.
BoxElements box_elements(const ParamLayout& layout);

// In the order of local_param_table.
std::vector<ParamLayout> param_layouts(const ModelSpec& model, const StageSpec& stage,
                                       const StageShape& shape);

// How many ranks of cp have addends of the gradient: all, but experts see the tokens of all ranks
// that share them.
int cp_addends(const Param& param, const StageShape& shape);

}  // namespace trireme
