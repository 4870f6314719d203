#pragma once

#include <map>
#include <vector>

#include "autoparallel/choice_problem.h"
#include "autoparallel/priced_unit.h"
#include "autoparallel/unit_setting.h"

namespace trireme {

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

// The choices that a group has in a setting.
struct GroupChoices {
  std::vector<ChoiceCost> costs;     // [choice]
  std::vector<GroupChoice> choices;  // [choice]
  // The choice by which a group has some roles; other roles may have led to the same.
  std::map<Roles, int> choice_of_roles;
};

// Returns a choice for the roles of the setting, or for all roles that the group can have on the
// mesh. Roles that cost no less than earlier ones and place all values alike have the choice of
// these.
GroupChoices group_choices(PricedUnit& unit, const UnitSetting& setting, size_t group);

}  // namespace trireme
