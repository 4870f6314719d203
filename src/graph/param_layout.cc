#include "graph/param_layout.h"

#include <algorithm>

#include "base/check.h"
#include "graph/axis_part.h"
#include "graph/op_placement.h"
#include "graph/param_table.h"
#include "graph/stage_params.h"

namespace trireme {
namespace {

// The op that reads the parameter.
const Op& reader_of(const Graph& unit, const Param& param) {
  const ParamId id = ParamId(&param - unit.params.data());
  for (const Op& op : unit.ops) {
    if (std::count(op.params.begin(), op.params.end(), id) > 0) return op;
  }
  TRIREME_CHECK(false, "parameter " + param.name + " is read by no op");
}

bool grad_is_addend(const Graph& unit, const Param& param, const StageShape& shape) {
  const Op& op = reader_of(unit, param);
  return grad_is_addend(op, param, strategies_of(unit, op, MeshAxis::Tp, shape).front());
}

}  // namespace

std::vector<ParamLayout> param_layouts(const ModelSpec& model, const StageSpec& stage,
                                       const StageShape& shape) {
  const ModelShard shard = shard_model(model, shape);
  std::vector<ParamLayout> layouts;
  for_each_param(model, stage, shard, [&](int, const Graph& unit, const Param& param) {
    const AxisPart rows = part_of(param.rows, shard);
    ParamLayout layout{.name = full_name(unit, param), .placement = placement_of(param)};
    if (param.is_matrix()) {
      const AxisPart columns = part_of(param.columns, shard);
      layout.global = {rows.total, columns.total};
      layout.begin = {rows.begin, columns.begin};
      layout.extent = {rows.count, columns.count};
    } else {
      layout.global = {rows.total};
      layout.begin = {rows.begin};
      layout.extent = {rows.count};
    }
    const bool is_whole = layout.placement == Placement::invariant();
    layout.copies = is_whole ? shape.tp : rows.copies;
    layout.is_first_copy = shape.tp_rank % layout.copies == 0;
    // Ranks that hold the same part see other queries.
    const bool has_addends = !is_whole || grad_is_addend(unit, param, shape);
    layout.grad_addends = has_addends ? layout.copies : 1;
    layout.cp_addends = cp_addends(param, shape);
    layouts.push_back(std::move(layout));
  });
  return layouts;
}

BoxElements box_elements(const ParamLayout& layout) {
  if (layout.global.rank() == 1) return {.origin = layout.begin[0]};
  const int64_t whole_cols = layout.global[1];
  return {layout.begin[0] * whole_cols + layout.begin[1], layout.extent[1], whole_cols};
}

int cp_addends(const Param& param, const StageShape& shape) {
  return param.expert >= 0 ? shape.cp / std::min(shape.cp, shape.ep) : shape.cp;
}

}  // namespace trireme
