#include "graph/unit_passes.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "graph/model_graphs.h"
#include "graph/op_placement.h"
#include "graph/slice.h"
#include "graph/stack.h"

namespace trireme {
namespace {

bool is_alike(const Value& a, const Value& b) {
  return a.name == b.name && a.dims == b.dims && a.numbers == b.numbers;
}

bool is_alike(const Param& a, const Param& b) {
  return a.name == b.name && a.rows == b.rows && a.columns == b.columns && a.init == b.init &&
         a.stddev == b.stddev && a.balance_rate == b.balance_rate && a.expert == b.expert;
}

bool is_alike(const Op& a, const Op& b) {
  return a.kind == b.kind && a.name == b.name && a.inputs == b.inputs && a.params == b.params &&
         a.outputs == b.outputs;
}

template <typename T>
bool are_alike(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const T& x, const T& y) { return is_alike(x, y); });
}

// Whether two units compute the same, whatever they are called.
bool is_alike(const Graph& a, const Graph& b) {
  return a.input == b.input && a.output == b.output && are_alike(a.values, b.values) &&
         are_alike(a.params, b.params) && are_alike(a.ops, b.ops);
}

}  // namespace

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
  const auto add = [&](const Graph& stated) {
    const auto alike = std::find_if(units.begin(), units.end(), [&](const UnitPasses& other) {
      return is_alike(other.stated, stated);
    });
    if (alike != units.end()) {
      alike->names.push_back(stated.unit);
      return;
    }
    Graph stacked = stack(stated);
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
