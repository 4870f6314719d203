#include "memory/stage_units.h"

#include <fmt/format.h>

#include "graph/all_passes.h"
#include "graph/layer_keep.h"
#include "graph/model_graphs.h"

namespace trireme {
namespace {

constexpr const char* kStageGrad =
    "dx_TC";  // of the stage's input; of every layer where B is with W

bool is_layer(const Graph& graph) { return graph.unit.starts_with("layers."); }

// If B and W are one action, gradients between layers take turns in scratch. Gradients of images
// have a piece for each shape, and neighbouring units never have the same piece.
std::string shared_grad(const UnitBorder& border, size_t unit) {
  if (!border || border.is_stream) return kStageGrad;
  return fmt::format("dx{}_{}x{}", unit % 2, border.rows, border.cols);
}

}  // namespace

std::string stage_input_name(const StageSpec& stage) {
  // A head without layers reads what a stage writes.
  if (stage.num_layers == 0) return kStageOutput;
  return fmt::format("layers.{}.x_TC", stage.first_layer);
}

TensorPlace StageUnit::place(Space space, const std::string& name_inside) const {
  switch (space) {
    case Space::Input:
      return input;
    case Space::Output:
      return output;
    case Space::InputGrad:
      return input_grad;
    case Space::OutputGrad:
      return output_grad;
    case Space::Saved:
    case Space::WeightGrad:
      return {space, prefix + name_inside};
    default:
      return {space, name_inside};
  }
}

StageUnits stage_units(const ModelSpec& model, const StageSpec& stage, const StageShape& shape) {
  StageUnits result;
  const ModelShard shard = shard_model(model, shape);
  const auto fused = [&](Graph graph) { return fused_graph(std::move(graph), shape); };
  for_each_unit(model, stage, fused, [&](const Graph& graph, bool is_new) {
    StageUnit unit;
    unit.name = graph.unit;
    if (is_layer(graph)) unit.prefix = unit.param_prefix = graph.unit + ".";
    if (is_new) {
      // Only layers compute anything again.
      const Keep kept =
          keep(graph, is_layer(graph) ? policy_of_layer(model, shape, graph) : KeepPolicy{});
      const bool is_first = !is_matrix(graph.values[size_t(graph.input)]);
      result.kinds.push_back({graph, kept, unit_memory(graph, shard, shape, kept, is_first)});
    }
    unit.kind = int(result.kinds.size()) - 1;
    const bool is_tokens = graph.unit == "embedding";
    unit.input = {Space::Saved, is_tokens         ? "tokens_T"
                                : is_layer(graph) ? unit.prefix + "x_TC"
                                                  : std::string(kStageOutput)};
    result.units.push_back(std::move(unit));
  });
  // A unit writes what the next one reads, and the other way round for gradients.
  const Space grads = shape.split_backward ? Space::WeightGrad : Space::Scratch;
  for (size_t i = 0; i < result.units.size(); ++i) {
    StageUnit& unit = result.units[i];
    const bool is_last = i + 1 == result.units.size();
    unit.output = is_last ? TensorPlace{Space::Saved, kStageOutput} : result.units[i + 1].input;
    const bool has_own_grad = shape.split_backward && !unit.prefix.empty();
    unit.output_grad = {grads, has_own_grad ? unit.prefix + "dy_TC"
                                            : shared_grad(result.kind_of(unit).memory.output, i)};
    unit.input_grad = i == 0 ? TensorPlace{grads, kStageGrad} : result.units[i - 1].output_grad;
  }
  return result;
}

}  // namespace trireme
