#pragma once

#include <map>
#include <vector>

#include "autoparallel/choice_problem.h"
#include "autoparallel/group_choices.h"
#include "autoparallel/priced_unit.h"
#include "autoparallel/unit_setting.h"

namespace trireme {

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

// Leaves out roles that a group cannot have on the mesh. If a group has no role left, the problem
// has no assignment.
UnitProblem unit_problem(PricedUnit& unit, const UnitSetting& setting);
// Returns the problems of a setting in which the residual stream lies in each of these ways:
// [stream]. They are empty if already the fastest choices of all groups take more than `most_s`.
std::vector<UnitProblem> unit_problems(PricedUnit& unit, const UnitSetting& setting,
                                       const std::vector<MeshPlacement>& streams,
                                       double most_s = kImpossible);
// Returns the sum of the seconds of the fastest choices of all groups, without redistributions
// between them. No assignment of the problem takes less.
double least_seconds_of_groups(PricedUnit& unit, const UnitSetting& setting);

}  // namespace trireme
