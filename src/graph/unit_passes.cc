#include "graph/unit_passes.h"

#include <utility>

#include "base/check.h"
#include "graph/latent_ring.h"
#include "graph/layer_strategy.h"
#include "graph/model_graphs.h"
#include "graph/op_placement.h"
#include "graph/slice.h"
#include "graph/stack.h"

namespace trireme {
std::vector<ValuePlacement> placements_of(const Graph& placed, const StageShape& layout) {
  std::vector<ValuePlacement> placements(placed.values.size());
  placements[size_t(placed.input)] = input_placement(placed, layout);
  for (const Op& op : placed.ops) {
    if (op.kind == OpKind::Redistribute) {
      ValuePlacement moved = placements[size_t(op.inputs.front())];
      moved.on(op.axis) = op.change.to;
      placements[size_t(op.outputs.front())] = moved;
      continue;
    }
    for (const MeshAxis axis : kAxesInside) {
      std::vector<Placement> inputs;
      for (const ValueId input : op.inputs) inputs.push_back(placements[size_t(input)].on(axis));
      const Strategy strategy = choose_strategy(strategies_of(placed, op, axis, layout), inputs);
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        placements[size_t(op.outputs[i])].on(axis) = strategy.outputs[i];
      }
    }
  }
  return placements;
}

std::vector<UnitPasses> unit_passes(const ModelSpec& model, const StageShape& layout) {
  std::vector<UnitPasses> units;
  const auto add = [&](const Graph& stated, bool is_new) {
    if (!is_new) return units.back().names.push_back(stated.unit);
    Graph stacked = ring_of_latents(stack(leave_whole(stated, layout.layers)), layout);
    Graph placed = place(stacked, layout);
    Graph sliced = slice(placed, layout);
    std::vector<ValuePlacement> placements = placements_of(placed, layout);
    units.push_back({{stated.unit},
                     stated,
                     std::move(stacked),
                     std::move(placed),
                     std::move(sliced),
                     std::move(placements)});
  };
  const auto as_stated = [](Graph unit) { return unit; };
  for_each_unit(model, whole_model(model), as_stated, add);
  return units;
}

}  // namespace trireme
