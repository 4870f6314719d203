#pragma once

#include "autoparallel/priced_unit.h"
#include "autoparallel/unit_setting.h"

namespace trireme {

// What the parameters of a group cost a rank, beside the ops that read them.
struct ParamCost {
  double state_bytes = 0.0;  // parameters, gradients and optimizer state
  // In each micro-batch the rank gathers parameters and sums gradients (StateSharding::Everything).
  // This is the time that the group's own computation does not hide, and the part of it in F.
  double gather_s = 0.0;
  double forward_gather_s = 0.0;
  double step_s = 0.0;  // of a step: sums of gradients and the update
};

// Returns the cost of the parameters of a group whose ops have these roles. `layout` is that of the
// roles (layout_of), and `price` that of the group on it.
ParamCost param_cost(PricedUnit& unit, const UnitSetting& setting, size_t group, const Roles& roles,
                     const StageShape& layout, const GroupPrice& price);

}  // namespace trireme
