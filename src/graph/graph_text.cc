#include "graph/graph_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "graph/fuse.h"
#include "graph/keep.h"

namespace trireme {
namespace {

const std::vector<ValuePlacement> kNotPlaced;

std::string values_text(const Graph& graph, const GraphLabels& labels,
                        const std::vector<ValueId>& ids) {
  std::vector<std::string> texts;
  for (const ValueId id : ids) {
    const std::vector<std::string> placement = labels.placement(id);
    texts.push_back(fmt::format("{}[{}{}{}]", graph.values[size_t(id)].name,
                                fmt::join(labels.dims(id), ", "), placement.empty() ? "" : "; ",
                                fmt::join(placement, ", ")));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string params_text(const Graph& graph, const GraphLabels& labels, const Op& op) {
  constexpr size_t kMostShown = 6;  // a layer may have hundreds of experts
  const std::vector<ParamId> held = labels.held_params(op);
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(held.size(), kMostShown); ++i) {
    texts.push_back(
        fmt::format("{}[{}]", graph.params[size_t(held[i])].name, labels.param_dims(held[i])));
  }
  if (held.size() > kMostShown) texts.push_back(fmt::format("{} more", held.size() - kMostShown));
  if (held.size() < op.params.size()) {
    texts.push_back(fmt::format("{} on other ranks of ep", op.params.size() - held.size()));
  }
  return texts.empty() ? "" : fmt::format(" with {}", fmt::join(texts, ", "));
}

std::string op_line(const Graph& graph, const GraphLabels& labels, const Op& op, size_t width) {
  std::string line =
      fmt::format("    {:<{}}  {:<14}  {} -> {}", op.name, width, name_of(op.kind),
                  values_text(graph, labels, op.inputs), values_text(graph, labels, op.outputs));
  if (op.kind != OpKind::Redistribute) {
    line += params_text(graph, labels, op);
    for (const std::string& sums : {to_string(op.slices), labels.gathered_sums(op)}) {
      line += (sums.empty() ? "" : ", ") + sums;
    }
    return line + "\n";
  }
  return line + fmt::format(" over {}: {} to {}{}{}\n", name_of(op.axis), to_string(op.change.from),
                            to_string(op.change.to), op.in_pieces ? ", in pieces" : "",
                            labels.moves_nothing(op) ? " (one rank: nothing moves)" : "");
}

int64_t number_of(const std::string& layer) {
  return std::stoll(layer.substr(layer.rfind('.') + 1));
}

// Layers alone can have the graph of another unit.
bool follows(const std::string& layer, const std::string& other) {
  return number_of(layer) == number_of(other) + 1;
}

// What becomes of the values behind F, after `fuse`. Only layers compute anything again.
std::string keep_text(const UnitPasses& unit, const StageShape& layout) {
  const bool is_layer = unit.placed.unit.starts_with("layers.");
  const Graph fused = fuse(unit.sliced);
  const Keep kept = keep(fused, is_layer ? keep_policy_of(layout) : KeepPolicy{});
  return fmt::format("  keep: with memory.recompute = \"{}\" W and B find these values\n{}",
                     name_of(layout.recompute), to_string(fused, kept));
}

bool has_slices(const Graph& graph) {
  return std::any_of(graph.ops.begin(), graph.ops.end(),
                     [](const Op& op) { return op.slices != OpSlices{}; });
}

size_t num_redistributions(const Graph& graph) {
  return size_t(std::count_if(graph.ops.begin(), graph.ops.end(),
                              [](const Op& op) { return op.kind == OpKind::Redistribute; }));
}

}  // namespace

std::vector<PassView> views_of(const UnitPasses& unit) {
  const bool stacks = unit.stacked.ops.size() != unit.stated.ops.size();
  const bool moves = num_redistributions(unit.placed) > 0, slices = has_slices(unit.sliced);
  return {{"stated", "this is the graph as the function of the unit states it", unit.stated,
           kNotPlaced},
          {"stack", "linear ops of one module that read the same value are one product",
           unit.stacked, kNotPlaced, stacks, stacks},
          {"place", "a redistribution stands wherever an op needs a value in another placement",
           unit.placed, unit.placements, moves, true},
          {"slice", "a sum over what tp shares out is cut into slices, so that tp changes no bit",
           unit.sliced, unit.placements, slices, slices}};
}

std::string title_of(const UnitPasses& unit) {
  if (unit.names.size() == 1) return unit.names.front();
  std::string title;
  for (size_t first = 0; first < unit.names.size();) {
    size_t last = first;
    while (last + 1 < unit.names.size() && follows(unit.names[last + 1], unit.names[last])) ++last;
    title += (title.empty() ? "" : ", ") + unit.names[first];
    if (last > first) title += " to " + unit.names[last];
    first = last + 1;
  }
  return title + ", which are alike";
}

std::string graph_text(const Graph& graph, const GraphLabels& labels) {
  size_t width = 0;
  for (const Op& op : graph.ops) width = std::max(width, op.name.size());
  std::string text;
  for (const Op& op : graph.ops) text += op_line(graph, labels, op, width);
  return text;
}

std::string layout_text(const ModelSpec& model, const StageShape& layout) {
  const char* const plural = layout.micro_sequences == 1 ? "" : "s";
  // Nets of images have no sequence, although their ranks share out rows, too.
  const bool has_sequences = !model.reads_images();
  const std::string samples =
      has_sequences ? fmt::format("sequence{} of {} tokens", plural, model.seq_len)
                    : fmt::format("image{} of {} x {} with {} channel{}", plural, model.image_size,
                                  model.image_size, model.image_channels,
                                  model.image_channels == 1 ? "" : "s");
  return fmt::format("rank tp {}, cp {}, ep {} of tp {}{}, cp {}, ep {}; a micro-batch of {} {}",
                     layout.tp_rank, layout.cp_rank, layout.ep_rank, layout.tp,
                     has_sequences && layout.sequence_parallel ? " with sequence parallelism" : "",
                     layout.cp, layout.ep, layout.micro_sequences, samples);
}

std::string units_text(std::span<const UnitPasses> units, const ModelSpec& model,
                       const StageShape& layout) {
  std::string text = layout_text(model, layout) + "\n";
  for (const UnitPasses& unit : units) {
    text += "\n" + title_of(unit) + "\n";
    for (const PassView& view : views_of(unit)) {
      text += fmt::format("  {}: {}", view.name, view.meaning);
      if (!view.changes_graph) text += "; it changes nothing here";
      text += "\n";
      if (!view.is_shown) continue;
      text += graph_text(view.graph, GraphLabels(view.graph, view.placements, model, layout));
    }
    text += keep_text(unit, layout);
  }
  return text;
}

}  // namespace trireme
