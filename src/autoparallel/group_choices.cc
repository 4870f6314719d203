#include "autoparallel/group_choices.h"

#include <algorithm>
#include <optional>

#include "autoparallel/param_cost.h"

namespace trireme {
namespace {

bool is_of_experts(const OpGroups& groups, const OpGroup& group) {
  return std::any_of(group.ops.begin(), group.ops.end(), [&](size_t op) {
    const ValueId made = groups.graph().ops[op].outputs.front();
    return groups.made(op, made, Role::Expert) == DimPlacement::Experts;
  });
}

// Roles on a dim of one rank are all the same. Expert is Data where no tensor lies by expert.
std::vector<Role> roles_on(const MeshDim& dim, bool has_experts) {
  if (dim.degree() == 1) return {Role::Whole};
  std::vector<Role> roles{dim.rows, Role::Tensor, Role::SequenceTensor, Role::Whole};
  if (has_experts) roles.insert(roles.begin() + 1, Role::Expert);
  return roles;
}

// Returns the roles of a group if all ops have those of the setting.
Roles uniform_roles(const UnitSetting& setting, bool has_experts) {
  Roles roles = *setting.roles;
  for (size_t d = 0; d < 2; ++d) {
    if (setting.mesh.dims[d].degree() == 1) {
      roles[d] = Role::Whole;
    } else if (roles[d] == Role::Expert && !has_experts) {
      roles[d] = setting.mesh.dims[d].rows;
    }
  }
  return roles;
}

MoveCost moves_inside(PricedUnit& unit, const UnitSetting& setting, int group, const Roles& roles,
                      const MoveAgain& again) {
  UnitMoves& moves = unit.moves_on(setting.mesh);
  const OpGroups& groups = unit.groups();
  MoveCost sum;
  for (const ValueUse& use : groups.uses()) {
    if (use.from != group || use.to != group) continue;
    const MoveCost cost =
        moves.cost(use.value, groups.made(use, roles), groups.needed(use, roles), again);
    sum.total_s += cost.total_s;
    sum.forward_s += cost.forward_s;
  }
  return sum;
}

// Adds the choice of these roles, unless the model cannot be shared out so, or an earlier choice is
// as good and places all values alike.
void add_choice(PricedUnit& unit, const UnitSetting& setting, size_t group, const StageShape& base,
                const Roles& roles, GroupChoices& result) {
  const auto layout = layout_of(unit.model(), base, setting.mesh, roles);
  if (!layout) return;
  const GroupPrice& price = unit.prices_on(*layout)[group];
  const MoveCost inside =
      moves_inside(unit, setting, int(group), roles, {.runs_again = price.again_s > 0.0});
  const ParamCost params = param_cost(unit, setting, group, roles, *layout, price);
  GroupChoice choice{.roles = roles};
  choice.compute_s = price.forward_s + price.backward_s + price.again_s;
  choice.inside_s = inside.total_s;
  choice.gather_s = params.gather_s;
  choice.forward_s = price.forward_s + inside.forward_s;
  choice.forward_s += params.forward_gather_s;
  choice.step_s = params.step_s;
  choice.scratch_bytes = price.scratch_bytes;
  const ChoiceCost cost{.seconds = choice.compute_s + choice.inside_s + choice.gather_s +
                                   choice.step_s / double(setting.num_microbatches),
                        .state_bytes = params.state_bytes,
                        .activation_bytes = price.saved_bytes};
  for (size_t other = 0; other < result.costs.size(); ++other) {
    if (!is_no_worse(result.costs[other], cost)) continue;
    if (!unit.groups().placed_alike(int(group), result.choices[other].roles, roles)) continue;
    result.choice_of_roles[roles] = int(other);
    return;
  }
  result.choice_of_roles[roles] = int(result.costs.size());
  result.costs.push_back(cost);
  result.choices.push_back(choice);
}

}  // namespace

GroupChoices group_choices(PricedUnit& unit, const UnitSetting& setting, size_t group) {
  GroupChoices result;
  const StageShape base = unit.base_with(setting.recompute);
  const bool has_experts = is_of_experts(unit.groups(), unit.groups().groups()[group]);
  const auto add = [&](const std::optional<Roles>& wanted) {
    for (const Role outer : roles_on(setting.mesh.dims[0], has_experts)) {
      for (const Role inner : roles_on(setting.mesh.dims[1], has_experts)) {
        if (wanted && *wanted != Roles{outer, inner}) continue;
        add_choice(unit, setting, group, base, {outer, inner}, result);
      }
    }
  };
  if (!setting.roles) {
    add(std::nullopt);
    return result;
  }
  add(uniform_roles(setting, has_experts));
  if (result.choices.empty() && has_experts) add(uniform_roles(setting, false));
  return result;
}

}  // namespace trireme
