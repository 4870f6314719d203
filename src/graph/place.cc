#include "graph/place.h"

#include <algorithm>
#include <string>

#include "graph/layer_strategy.h"
#include "graph/op_placement.h"

namespace trireme {
namespace {

class Placer {
 public:
  Placer(const Graph& graph, const StageShape& layout)
      : graph_(graph), layout_(layout), placements_(graph.values.size()) {}

  Graph run() {
    placements_[size_t(graph_.input)] = input_placement(graph_, layout_);
    for (Op& op : std::exchange(graph_.ops, {})) place_op(std::move(op));
    const ValuePlacement wanted = output_placement(graph_, layout_);
    for (const MeshAxis axis : kAxesInside) {
      graph_.output = redistributed(graph_.output, axis, wanted.on(axis));
    }
    if (layout_.tp_overlap) mark_pieces();
    for (size_t i = 0; i < graph_.values.size(); ++i) graph_.values[i].placement = placements_[i];
    return std::move(graph_);
  }

 private:
  void place_op(Op op) {
    for (const MeshAxis axis : kAxesInside) {
      std::vector<Placement> as_they_lie;
      for (const ValueId input : op.inputs)
        as_they_lie.push_back(placements_[size_t(input)].on(axis));
      const Strategy strategy =
          choose_strategy(strategies_of(graph_, op, axis, layout_), as_they_lie);
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        op.inputs[i] = redistributed(op.inputs[i], axis, strategy.inputs[i]);
      }
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        placements_[size_t(op.outputs[i])].on(axis) = strategy.outputs[i];
      }
    }
    graph_.ops.push_back(std::move(op));
  }

  ValueId redistributed(ValueId value, MeshAxis axis, Placement wanted) {
    // A halo is made from the rows that the ranks have.
    if (wanted.kind == Placement::Kind::Halo) {
      value = redistributed(value, axis, Placement::shard(wanted.dim));
    }
    const ValuePlacement is = placements_[size_t(value)];
    if (is.on(axis) == wanted) return value;
    const Redistribution change{is.on(axis), wanted};
    for (const Op& op : graph_.ops) {
      if (op.kind == OpKind::Redistribute && op.inputs.front() == value && op.axis == axis &&
          op.change == change) {
        return op.outputs.front();
      }
    }
    Value moved = graph_.values[size_t(value)];
    moved.name += "@" + std::string(name_of(axis));
    const ValueId result = ValueId(graph_.values.size());
    Op op{.kind = OpKind::Redistribute, .name = moved.name, .inputs = {value}, .outputs = {result}};
    op.axis = axis;
    op.change = change;
    graph_.values.push_back(std::move(moved));
    placements_.push_back(is);
    placements_.back().on(axis) = wanted;
    graph_.ops.push_back(std::move(op));
    return result;
  }

  // The linear op that alone reads what `redistribution` writes, or alone makes what it reads.
  const Op* linear_beside(const Op& redistribution) const {
    const ValueId before = redistribution.inputs.front(), after = redistribution.outputs.front();
    const Op* found = nullptr;
    int num_readers = 0;
    for (const Op& op : graph_.ops) {
      if (&op == &redistribution) continue;
      const bool makes = std::count(op.outputs.begin(), op.outputs.end(), before) > 0;
      const bool reads = std::count(op.inputs.begin(), op.inputs.end(), after) > 0;
      num_readers += reads ? 1 : 0;
      const bool is_neighbour = redistribution.change.from == Placement::partial() ? makes : reads;
      if (is_neighbour && op.kind == OpKind::Linear) found = &op;
    }
    // The buffers of pieces have room for rows of the residual stream only.
    const bool is_residual = graph_.values[size_t(before)].dims.back() == Axis::Width;
    return num_readers == 1 && is_residual ? found : nullptr;
  }

  void mark_pieces() {
    for (Op& op : graph_.ops) {
      if (op.kind != OpKind::Redistribute || op.axis != MeshAxis::Tp) continue;
      const Op* linear = linear_beside(op);
      if (linear == nullptr) continue;
      op.in_pieces = true;
      op.params = linear->params;
    }
  }

  Graph graph_;
  const StageShape& layout_;
  std::vector<ValuePlacement> placements_;
};

// Samples and losses, which are no matrices, are the same on all tp ranks. `has_cut_rows`: each
// rank has some rows of every image, if the value has images.
ValuePlacement border_placement(const Value& value, const StageShape& layout, bool has_cut_rows) {
  if (!is_matrix(value)) return {Placement::invariant()};
  const bool is_cut = has_cut_columns(value) || (has_images(value) && has_cut_rows);
  return {is_cut ? Placement::shard(1) : residual_placement(layout)};
}

}  // namespace

ValuePlacement input_placement(const Graph& graph, const StageShape& layout) {
  return border_placement(graph.values[size_t(graph.input)], layout,
                          input_has_cut_rows(graph, layout.layers));
}

ValuePlacement output_placement(const Graph& graph, const StageShape& layout) {
  return border_placement(graph.values[size_t(graph.output)], layout,
                          cuts_image_rows(graph, layout.layers));
}

Graph place(const Graph& graph, const StageShape& layout) { return Placer(graph, layout).run(); }

}  // namespace trireme
