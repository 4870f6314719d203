#include "graph/graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace trireme {
namespace {

std::string axes_of(const std::vector<Dim>& dims) {
  std::vector<std::string_view> names;
  for (const Dim& dim : dims) names.push_back(name_of(dim.axis));
  return fmt::format("{}", fmt::join(names, " "));
}

std::string text_of(const Value& value) {
  return fmt::format("{}[{}]", value.name, axes_of(value.dims));
}

std::string text_of(const Param& param) {
  return param.is_matrix()
             ? fmt::format("{}[{} x {}]", param.name, axes_of(param.rows), axes_of(param.columns))
             : fmt::format("{}[{}]", param.name, axes_of(param.rows));
}

template <typename T>
std::string list_of(const std::vector<T>& all, const std::vector<int>& chosen) {
  constexpr size_t kMostShown = 6;  // a layer may have hundreds of experts
  std::vector<std::string> texts;
  for (size_t i = 0; i < chosen.size() && i < kMostShown; ++i) {
    texts.push_back(text_of(all[size_t(chosen[i])]));
  }
  if (chosen.size() > kMostShown)
    texts.push_back(fmt::format("{} more", chosen.size() - kMostShown));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string fused_text(const Graph& graph, const Op& op) {
  std::string text;
  const auto edge = [&](const char* word, const std::optional<EdgeChange>& edge_change) {
    if (!edge_change) return;
    text +=
        fmt::format(", {} tp: {} to {}{}", word, to_string(edge_change->change.from),
                    to_string(edge_change->change.to), edge_change->in_pieces ? ", in pieces" : "");
  };
  const auto value = [&](const char* word, ValueId id) {
    if (id >= 0) text += fmt::format(", {} {}", word, graph.values[size_t(id)].name);
  };
  edge("entering", op.enter);
  value("added to", op.addend);
  value("with the residual", op.early_residual);
  edge("leaving", op.leave);
  if (!op.dropout.empty()) text += ", dropped at " + op.dropout;
  if (op.late_residual >= 0 && op.late_residual != op.early_residual) {
    value("then added to", op.late_residual);
  }
  return text;
}

}  // namespace

std::string_view name_of(OpKind kind) {
  constexpr std::string_view kNames[] = {"lookup",
                                         "norm",
                                         "linear",
                                         "grouped_linear",
                                         "rope",
                                         "concat",
                                         "choose_keys",
                                         "attention",
                                         "latent_attention",
                                         "activation",
                                         "dropout",
                                         "scale",
                                         "add",
                                         "route",
                                         "count",
                                         "choose",
                                         "dispatch",
                                         "combine",
                                         "softmax_parts",
                                         "cross_entropy",
                                         "pixels",
                                         "convolution",
                                         "batch_norm",
                                         "pool",
                                         "flatten",
                                         "redistribute"};
  return kNames[int(kind)];
}

bool is_matrix(const Value& value) {
  return value.numbers == Numbers::Compute && value.dims.size() > 1;
}

bool is_addend(const Value& value) {
  return value.placement.tp == Placement::partial() && is_matrix(value) &&
         value.dims.front() == Axis::Token;
}

bool gathers(const Op& op) {
  return op.kind == OpKind::Redistribute && op.change.to == Placement::replicate();
}

const Op* producer_of(const Graph& graph, ValueId value) {
  for (const Op& op : graph.ops) {
    if (std::count(op.outputs.begin(), op.outputs.end(), value) > 0) return &op;
  }
  return nullptr;
}

bool is_of_samples(const Graph& graph, ValueId value) {
  const Op* made_by = producer_of(graph, value);
  if (made_by == nullptr) return false;
  if (made_by->kind == OpKind::Redistribute) return is_of_samples(graph, made_by->inputs.front());
  return made_by->kind == OpKind::Pixels;
}

bool has_images(const Value& value) { return value.num_row_dims == 3; }

bool lies_by_rows(const Value& value) {
  const Placement& tp = value.placement.tp;
  return has_images(value) && (tp == Placement::shard(1) || tp.kind == Placement::Kind::Halo);
}

bool reads(const Op& op, ValueId value) {
  return std::count(op.inputs.begin(), op.inputs.end(), value) > 0 || op.addend == value ||
         op.early_residual == value || op.late_residual == value;
}

std::string to_string(const OpSlices& slices) {
  std::vector<std::string> sums;
  if (slices.forward > 0) sums.push_back(fmt::format("F sums {} slices", slices.forward));
  if (slices.backward > 0) sums.push_back(fmt::format("B sums {} slices", slices.backward));
  return fmt::format("{}", fmt::join(sums, ", "));
}

std::string to_string(const Graph& graph) {
  std::string text = graph.unit + "\n";
  for (const Op& op : graph.ops) {
    text += fmt::format("  {} = {}({})", list_of(graph.values, op.outputs), name_of(op.kind),
                        list_of(graph.values, op.inputs));
    if (!op.params.empty()) text += " with " + list_of(graph.params, op.params);
    if (op.kind == OpKind::Redistribute) {
      text += fmt::format(" over {}: {} to {}{}", name_of(op.axis), to_string(op.change.from),
                          to_string(op.change.to), op.in_pieces ? ", in pieces" : "");
    }
    if (op.slices != OpSlices{}) text += ", " + to_string(op.slices);
    if (op.batch == NormBatch::Step) text += ", over the step";
    if (op.ahead > 0) text += fmt::format(", {} ahead", op.ahead);
    text += fused_text(graph, op) + "\n";
  }
  return text;
}

}  // namespace trireme
