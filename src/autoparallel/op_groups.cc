#include "autoparallel/op_groups.h"

#include <algorithm>

#include "base/check.h"
#include "graph/fuse.h"
#include "graph/place.h"
#include "graph/stack.h"

namespace trireme {
namespace {

bool is_among(const std::vector<ValueId>& values, ValueId value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// Returns the strategies over one axis that `place` chooses for the ops of a graph, in their order.
std::vector<Strategy> chosen_strategies(const Graph& graph, MeshAxis axis,
                                        const StageShape& layout) {
  const Graph placed = place(graph, layout);
  std::vector<Strategy> chosen;
  for (const Op& op : placed.ops) {
    if (op.kind == OpKind::Redistribute) continue;
    Strategy strategy;
    for (const ValueId id : op.inputs) {
      strategy.inputs.push_back(placed.values[size_t(id)].placement.on(axis));
    }
    for (const ValueId id : op.outputs) {
      strategy.outputs.push_back(placed.values[size_t(id)].placement.on(axis));
    }
    chosen.push_back(std::move(strategy));
  }
  return chosen;
}

std::vector<Strategy> strategies_of_role(const Graph& graph, Role role, StageShape layout) {
  layout.sequence_parallel = role == Role::SequenceTensor;
  switch (role) {
    case Role::Tensor:
    case Role::SequenceTensor:
      return chosen_strategies(graph, MeshAxis::Tp, layout);
    case Role::Expert:
      return chosen_strategies(graph, MeshAxis::Ep, layout);
    case Role::Context:
      return chosen_strategies(graph, MeshAxis::Cp, layout);
    case Role::Data:
    case Role::Whole:
      break;
  }
  std::vector<Strategy> chosen;
  for (const Op& op : graph.ops) {
    chosen.push_back(role == Role::Whole ? whole_strategy(op)
                                         : strategies_of(graph, op, MeshAxis::Dp, layout).front());
  }
  return chosen;
}

}  // namespace

OpGroups::OpGroups(const Graph& stated, const StageShape& base) : graph_(stack(stated)) {
  for (const Op& op : graph_.ops) has_experts_ |= op.kind == OpKind::GroupedLinear;
  for (const Role role : kRoles) {
    const std::vector<Strategy> strategies = strategies_of_role(graph_, role, base);
    TRIREME_CHECK(strategies.size() == graph_.ops.size(), "placing keeps the ops");
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      const Op& op = graph_.ops[i];
      OpPlacements placements{{}, {}, strategies[i]};
      for (size_t v = 0; v < op.inputs.size(); ++v) {
        const Value& value = graph_.values[size_t(op.inputs[v])];
        placements.inputs[op.inputs[v]] = placement_by_role(value, strategies[i].inputs[v], role);
      }
      for (size_t v = 0; v < op.outputs.size(); ++v) {
        const Value& value = graph_.values[size_t(op.outputs[v])];
        placements.outputs[op.outputs[v]] =
            placement_by_role(value, strategies[i].outputs[v], role);
      }
      placements_[role].push_back(std::move(placements));
    }
  }
  find_groups(base);
  find_uses();
}

// An op that `fuse` has removed belongs to the op that now writes its output, or else to the op
// that reads it.
void OpGroups::find_groups(const StageShape& base) {
  StageShape layout = base;
  layout.sequence_parallel = false;
  const Graph fused = fuse(place(graph_, layout));
  std::map<std::string, int> called;
  for (const Op& op : fused.ops) {
    if (op.kind == OpKind::Redistribute) continue;
    called[op.name] = int(groups_.size());
    groups_.push_back({op.name, {}, {}});
  }
  group_of_.assign(graph_.ops.size(), -1);
  for (size_t i = graph_.ops.size(); i-- > 0;) {
    const Op& op = graph_.ops[i];
    if (const auto known = called.find(op.name); known != called.end()) {
      group_of_[i] = known->second;
      continue;
    }
    for (const Op& by : fused.ops) {
      if (is_among(by.outputs, op.outputs.front())) group_of_[i] = called.at(by.name);
    }
    for (size_t reader = i + 1; group_of_[i] < 0 && reader < graph_.ops.size(); ++reader) {
      if (is_among(graph_.ops[reader].inputs, op.outputs.front())) {
        group_of_[i] = group_of_[reader];
      }
    }
    TRIREME_CHECK(group_of_[i] >= 0, "a fused op has a caller");
  }
  for (size_t i = 0; i < graph_.ops.size(); ++i) {
    OpGroup& group = groups_[size_t(group_of_[i])];
    group.ops.push_back(i);
    const std::vector<ParamId>& params = graph_.ops[i].params;
    group.params.insert(group.params.end(), params.begin(), params.end());
  }
}

void OpGroups::find_uses() {
  std::vector<int> maker(graph_.values.size(), -1);
  for (size_t i = 0; i < graph_.ops.size(); ++i) {
    const Op& op = graph_.ops[i];
    for (const ValueId id : op.inputs) {
      const int by = maker[size_t(id)];
      uses_.push_back(
          {id, by < 0 ? -1 : group_of_[size_t(by)], group_of_[i], by < 0 ? 0 : size_t(by), i});
    }
    for (const ValueId id : op.outputs) maker[size_t(id)] = int(i);
  }
  const int last = maker[size_t(graph_.output)];
  uses_.push_back({graph_.output, group_of_[size_t(last)], -1, size_t(last), 0});
}

DimPlacement OpGroups::needed(size_t op, ValueId value, Role role) const {
  return placements_.at(role)[op].inputs.at(value);
}
DimPlacement OpGroups::made(size_t op, ValueId value, Role role) const {
  return placements_.at(role)[op].outputs.at(value);
}
MeshPlacement OpGroups::needed(const ValueUse& use, const Roles& roles) const {
  return {needed(use.reader, use.value, roles[0]), needed(use.reader, use.value, roles[1])};
}
MeshPlacement OpGroups::made(const ValueUse& use, const Roles& roles) const {
  return {made(use.maker, use.value, roles[0]), made(use.maker, use.value, roles[1])};
}
bool OpGroups::placed_alike(int group, const Roles& a, const Roles& b) const {
  for (const ValueUse& use : uses_) {
    for (size_t d = 0; d < 2; ++d) {
      if (use.to == group &&
          needed(use.reader, use.value, a[d]) != needed(use.reader, use.value, b[d])) {
        return false;
      }
      if (use.from == group &&
          made(use.maker, use.value, a[d]) != made(use.maker, use.value, b[d])) {
        return false;
      }
    }
  }
  return true;
}
bool OpGroups::grad_is_addend(size_t op, ParamId param, Role role) const {
  return trireme::grad_is_addend(graph_.ops[op], graph_.params[size_t(param)],
                                 placements_.at(role)[op].strategy);
}

}  // namespace trireme
