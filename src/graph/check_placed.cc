#include "graph/check_placed.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "graph/all_passes.h"
#include "graph/layer_strategy.h"
#include "graph/model_graphs.h"
#include "graph/op_placement.h"
#include "graph/param_table.h"
#include "graph/place.h"
#include "schema/degree_rules.h"

namespace trireme {
namespace {

using LayoutsByName = std::map<std::string, const ParamLayout*>;

Error wrong_placement(const std::string& where, const std::string& what, MeshAxis axis,
                      Placement is, Placement should) {
  return {ErrorKind::Usage,
          fmt::format("{}: {} is {} over {}, and should be {}: a redistribution before it is "
                      "missing, doubled or another",
                      where, what, to_string(is), name_of(axis), to_string(should))};
}

// Walks one unit.
class UnitCheck {
 public:
  UnitCheck(const Graph& graph, const StageShape& layout, const LayoutsByName& layouts,
            std::map<std::string, bool>& used)
      : graph_(graph),
        layout_(layout),
        layouts_(layouts),
        used_(used),
        placements_(graph.values.size()),
        reads_(graph.values.size(), 0) {}

  Status run() {
    placements_[size_t(graph_.input)] = input_placement(graph_, layout_);
    for (const Op& op : graph_.ops) TRIREME_TRY_DONE(check(op));
    const ValuePlacement wanted = output_placement(graph_, layout_);
    const std::string end = graph_.unit + ", its end";
    for (const MeshAxis axis : kAxesInside) {
      TRIREME_TRY_DONE(expect(end, graph_.output, axis, wanted.on(axis)));
    }
    ++reads_[size_t(graph_.output)];
    for (const ValueId loss : graph_.losses_ahead) ++reads_[size_t(loss)];
    for (size_t i = 0; i < reads_.size(); ++i) {
      if (reads_[i] > 0 || !placements_[i]) continue;
      return Error{ErrorKind::Usage,
                   fmt::format("{}: {}, {} over tp, is read by no op", graph_.unit,
                               graph_.values[i].name, to_string(placements_[i]->tp))};
    }
    return Done{};
  }

 private:
  std::string name_of_op(const Op& op) const { return graph_.unit + "." + op.name; }

  Status expect(const std::string& where, ValueId value, MeshAxis axis, Placement wanted) const {
    const std::optional<ValuePlacement>& placement = placements_[size_t(value)];
    const std::string& name = graph_.values[size_t(value)].name;
    if (!placement) {
      return Error{ErrorKind::Usage,
                   fmt::format("{}: {} is read and was not written", where, name)};
    }
    const Placement is = placement->on(axis);
    if (!(is == wanted)) return wrong_placement(where, name, axis, is, wanted);
    if (reads_[size_t(value)] == 0 || !(wanted == Placement::partial())) return Done{};
    return Error{ErrorKind::Usage,
                 fmt::format("{}: {} is summed over {} twice", where, name, name_of(axis))};
  }

  std::vector<Placement> as_written(const Op& op, MeshAxis axis) const {
    std::vector<Placement> placements;
    for (const ValueId input : op.inputs) {
      placements.push_back(placements_[size_t(input)].value_or(ValuePlacement{}).on(axis));
    }
    return placements;
  }

  Status check_redistribution(const Op& op) {
    const ValueId input = op.inputs.front();
    TRIREME_TRY_DONE(expect(name_of_op(op), input, op.axis, op.change.from));
    ValuePlacement moved = *placements_[size_t(input)];
    moved.on(op.axis) = op.change.to;
    ++reads_[size_t(input)];
    return write(op, {moved});
  }

  Status check(const Op& op) {
    if (op.kind == OpKind::Redistribute) return check_redistribution(op);
    std::vector<ValuePlacement> outputs(op.outputs.size());
    for (const MeshAxis axis : kAxesInside) {
      const Strategy strategy =
          choose_strategy(strategies_of(graph_, op, axis, layout_), as_written(op, axis));
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        TRIREME_TRY_DONE(expect(name_of_op(op), op.inputs[i], axis, strategy.inputs[i]));
      }
      for (size_t i = 0; i < op.outputs.size(); ++i) outputs[i].on(axis) = strategy.outputs[i];
      if (axis == MeshAxis::Tp) TRIREME_TRY_DONE(check_params(op, strategy));
    }
    for (const ValueId input : op.inputs) ++reads_[size_t(input)];
    return write(op, outputs);
  }

  Status write(const Op& op, const std::vector<ValuePlacement>& outputs) {
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      std::optional<ValuePlacement>& placement = placements_[size_t(op.outputs[i])];
      if (placement) {
        return Error{ErrorKind::Usage, fmt::format("{}: {} is written twice", name_of_op(op),
                                                   graph_.values[size_t(op.outputs[i])].name)};
      }
      placement = outputs[i];
    }
    return Done{};
  }

  Status check_params(const Op& op, const Strategy& over_tp) {
    for (const ParamId id : op.params) {
      const Param& param = graph_.params[size_t(id)];
      const std::string name = full_name(graph_, param);
      const auto found = layouts_.find(name);
      if (found == layouts_.end()) {
        if (is_held_elsewhere(param)) continue;
        return Error{ErrorKind::Usage, fmt::format("{}: parameter {} has no placement over tp",
                                                   name_of_op(op), name)};
      }
      used_[found->first] = true;
      TRIREME_TRY_DONE(check_param(op, param, *found->second, over_tp));
    }
    return Done{};
  }

  // The ranks of ep hold equal numbers of experts, in order.
  bool is_held_elsewhere(const Param& param) const {
    if (param.expert < 0) return false;
    int64_t num_experts = 0;
    for (const Param& other : graph_.params) num_experts = std::max(num_experts, other.expert + 1);
    return param.expert * layout_.ep / num_experts != layout_.ep_rank;
  }

  // The parameter lies as the op needs it, and its layout says how its gradient is summed.
  Status check_param(const Op& op, const Param& param, const ParamLayout& layout,
                     const Strategy& over_tp) const {
    const Placement wanted = placement_of(param);
    if (!(layout.placement == wanted)) {
      return wrong_placement(name_of_op(op), layout.name, MeshAxis::Tp, layout.placement, wanted);
    }
    // Copies of a part see what their own ranks see. Copies of the whole all see the same, unless
    // their gradients are addends.
    const bool is_part = wanted.kind == Placement::Kind::Shard;
    const int addends = is_part || grad_is_addend(op, param, over_tp) ? layout.copies : 1;
    TRIREME_TRY_DONE(expect_addends(op, layout.name, "tp", addends, layout.grad_addends));
    return expect_addends(op, layout.name, "cp", cp_addends(param, layout_), layout.cp_addends);
  }

  Status expect_addends(const Op& op, const std::string& param, const char* axis, int should,
                        int is) const {
    if (should == is) return Done{};
    return Error{ErrorKind::Usage,
                 fmt::format("{}: the gradient of {} is one of {} addends over {}, and is summed "
                             "over {} ranks before Step",
                             name_of_op(op), param, should, axis, is)};
  }

  const Graph& graph_;
  const StageShape& layout_;
  const LayoutsByName& layouts_;
  std::map<std::string, bool>& used_;
  std::vector<std::optional<ValuePlacement>> placements_;
  std::vector<int> reads_;
};

// The first copies of all ranks hold every element once.
Status check_cover(const std::vector<std::vector<ParamLayout>>& of_rank) {
  for (size_t i = 0; i < of_rank[0].size(); ++i) {
    const ParamLayout& first = of_rank[0][i];
    const bool is_split = first.placement.kind == Placement::Kind::Shard;
    int64_t next = 0;  // along the dim that is split
    for (const std::vector<ParamLayout>& layouts : of_rank) {
      const ParamLayout& layout = layouts[i];
      if (!layout.is_first_copy) continue;
      if (is_split && layout.begin[first.placement.dim] != next) break;
      next += is_split ? layout.extent[first.placement.dim] : 1;
    }
    if (next != (is_split ? first.global[first.placement.dim] : 1)) {
      return Error{ErrorKind::Usage,
                   fmt::format("parameter {}: the tp ranks' parts do not make up {}", first.name,
                               first.global.to_string())};
    }
  }
  return Done{};
}

}  // namespace

Status check_placed(const std::vector<Graph>& units, const std::vector<ParamLayout>& layouts,
                    const StageShape& layout) {
  LayoutsByName by_name;
  for (const ParamLayout& param : layouts) by_name[param.name] = &param;
  std::map<std::string, bool> used;
  for (const Graph& unit : units) {
    TRIREME_TRY_DONE(UnitCheck(unit, layout, by_name, used).run());
  }
  for (const auto& [name, param] : by_name) {
    if (used.contains(name)) continue;
    return Error{ErrorKind::Usage, fmt::format("parameter {} is read by no op", name)};
  }
  return Done{};
}

Status check_placements(const ModelSpec& model, const StageSpec& stage, StageShape shape) {
  const Mesh mesh{.tp = shape.tp, .cp = shape.cp, .ep = shape.ep};
  TRIREME_TRY_DONE(check_degrees(model, mesh, shape.context_exchange));
  TRIREME_TRY_DONE(check_layer_rules(model, shape));
  const std::vector<Graph> units =
      stage_graphs(model, stage, [&](Graph unit) { return placed_graph(std::move(unit), shape); });
  std::vector<std::vector<ParamLayout>> of_rank;
  for (shape.tp_rank = 0; shape.tp_rank < shape.tp; ++shape.tp_rank) {
    of_rank.push_back(param_layouts(model, stage, shape));
    TRIREME_TRY_DONE(check_placed(units, of_rank.back(), shape));
  }
  return check_cover(of_rank);
}

}  // namespace trireme
