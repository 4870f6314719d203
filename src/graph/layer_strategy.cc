#include "graph/layer_strategy.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "graph/model_graphs.h"
#include "graph/op_placement.h"
#include "schema/param_patterns.h"

namespace trireme {
namespace {

// True if the op has a matrix of weights.
bool is_layer(const Graph& unit, const Op& op) {
  return std::any_of(op.params.begin(), op.params.end(),
                     [&](ParamId id) { return unit.params[size_t(id)].is_matrix(); });
}

// Returns the axis of the layer's weights that the tp ranks share out, or nullopt.
std::optional<Axis> cut_axis(const Graph& unit, const Op& op) {
  for (const ParamId id : op.params) {
    const Param& param = unit.params[size_t(id)];
    for (const std::vector<Dim>* dims : {&param.rows, &param.columns}) {
      for (const Dim& dim : *dims) {
        if (is_cut_by_tp(dim.axis)) return dim.axis;
      }
    }
  }
  return std::nullopt;
}

// Returns the strategy of the first rule that matches the name, or nullopt.
std::optional<LayerStrategy> strategy_by_rules(const std::string& layer,
                                               const std::vector<LayerRule>& rules) {
  for (const LayerRule& rule : rules) {
    if (matches_layer(rule.match, layer)) return rule.strategy;
  }
  return std::nullopt;
}

bool is_spatial(const std::string& layer, const std::vector<LayerRule>& rules) {
  return strategy_by_rules(layer, rules) == LayerStrategy::Spatial;
}

bool is_of_hidden_units(Axis axis) {
  return axis == Axis::Hidden || axis == Axis::DenseHidden || axis == Axis::SharedHidden;
}

void make_whole(std::vector<Dim>& dims, Axis axis) {
  for (Dim& dim : dims) dim.is_whole = dim.is_whole || dim.axis == axis;
}

Error no_strategy(const std::string& layer, const Op& op, LayerStrategy strategy,
                  const std::string& why, const std::string& remedy) {
  return usage(fmt::format("parallel.layers: {} ({}) has no strategy \"{}\" over tp: {}; {}", layer,
                           name_of(op.kind), name_of(strategy), why, remedy));
}

// Checks the rules while it walks the units of a model in their order.
class RuleCheck {
 public:
  RuleCheck(const ModelSpec& model, const StageShape& layout)
      : model_(model), layout_(layout), is_used_(layout.layers.size(), false) {}

  Status run() {
    std::vector<std::pair<Graph, bool>> units;  // and whether it is the first one with its block
    for_each_unit(
        model_, whole_model(model_), [](Graph graph) { return graph; },
        [&](const Graph& unit, bool is_new) { units.emplace_back(unit, is_new); });
    for (const auto& [unit, is_new] : units) {
      enter(unit);
      for (const Op& op : unit.ops) {
        if (is_layer(unit, op)) TRIREME_TRY_DONE(check(unit, op));
      }
      TRIREME_TRY_DONE(check_rows(unit));
      TRIREME_TRY_DONE(check_block(unit, is_new));
      leave(unit);
    }
    for (size_t i = 0; i < is_used_.size(); ++i) {
      if (is_used_[i]) continue;
      return usage(
          fmt::format("parallel.layers: the pattern \"{}\" matches no layer; this model has {}",
                      layout_.layers[i].match, fmt::join(names_, ", ")));
    }
    return Done{};
  }

 private:
  struct Chosen {
    std::string layer;
    LayerStrategy strategy;
  };

  Status check(const Graph& unit, const Op& op) {
    const std::string layer = layer_name(unit, op);
    names_.insert(layer.substr(unit.unit.starts_with("layers.") ? unit.unit.size() + 1 : 0));
    for (size_t i = 0; i < is_used_.size(); ++i) {
      is_used_[i] = is_used_[i] || matches_layer(layout_.layers[i].match, layer);
    }
    const LayerStrategy strategy = strategy_of_layer(unit, op, layout_.layers);
    TRIREME_TRY_DONE(check_kind(unit, op, layer, strategy));
    const std::optional<Axis> axis = cut_axis(unit, op);
    return axis ? check_axis(*axis, {layer, strategy}) : Status(Done{});
  }

  Status check_kind(const Graph& unit, const Op& op, const std::string& layer,
                    LayerStrategy strategy) const {
    const std::optional<Axis> axis = cut_axis(unit, op);
    if (op.kind == OpKind::Convolution) {
      if (strategy != LayerStrategy::Tensor) return Done{};
      return no_strategy(layer, op, strategy, "every rank has all of its axis channel",
                         "take \"data\" or \"spatial\"");
    }
    if (strategy == LayerStrategy::Tensor) return Done{};
    if (strategy == LayerStrategy::Spatial) {
      return no_strategy(layer, op, strategy, "it has no axis row, which convolutions alone have",
                         "take \"tensor\"");
    }
    if (op.kind != OpKind::Linear || !axis || !is_of_hidden_units(*axis)) {
      return no_strategy(layer, op, strategy,
                         fmt::format("the ops beside it share out its axis {}",
                                     name_of(axis.value_or(Axis::Width))),
                         "take \"tensor\"");
    }
    if (layout_.tp == 1 || layout_.sequence_parallel) return Done{};
    return no_strategy(layer, op, strategy, "every rank has all rows of its axis token",
                       "set parallel.sequence = true, or take \"tensor\"");
  }

  // Layers that share an axis lie over the ranks in the same way.
  Status check_axis(Axis axis, const Chosen& chosen) {
    for (const auto& [other_axis, other] : of_axis_) {
      if (other_axis != axis || other.strategy == chosen.strategy) continue;
      return usage(
          fmt::format("parallel.layers: {} is \"{}\", but {}, with which it shares the axis "
                      "{}, is \"{}\"; give both the same strategy",
                      chosen.layer, name_of(chosen.strategy), other.layer, name_of(axis),
                      name_of(other.strategy)));
    }
    of_axis_.emplace_back(axis, chosen);
    return Done{};
  }

  // Every convolution of a unit has the strategy of the first one, and if the ranks share out the
  // rows, each has one or more of every image of the unit.
  Status check_rows(const Graph& unit) const {
    if (unit.image_layer.empty()) return Done{};
    const std::string first = layer_name(unit, unit.image_layer);
    const LayerStrategy strategy =
        strategy_by_rules(first, layout_.layers).value_or(LayerStrategy::Data);
    for (const Op& op : unit.ops) {
      if (op.kind == OpKind::Convolution) {
        const LayerStrategy other = strategy_of_layer(unit, op, layout_.layers);
        if (other != strategy) {
          return usage(fmt::format(
              "parallel.layers: {} is \"{}\", but {}, which is a part of the same unit, is "
              "\"{}\"; give both the same strategy",
              layer_name(unit, op), name_of(other), first, name_of(strategy)));
        }
      }
      const Value& made = unit.values[size_t(op.outputs.front())];
      if (strategy != LayerStrategy::Spatial || !has_images(made)) continue;
      const int64_t rows = made.dims[1].extent;
      if (rows >= layout_.tp) continue;
      return no_strategy(layer_name(unit, op), op, strategy,
                         fmt::format("its axis row has {} row{} for {} ranks", rows,
                                     rows == 1 ? "" : "s", layout_.tp),
                         fmt::format("take \"data\" for {}, or a smaller parallel.tp", first));
    }
    return Done{};
  }

  // Layers with the same block are compiled once (layer_kinds), so they lie alike.
  Status check_block(const Graph& unit, bool is_new) {
    const UnitRows rows{unit.unit, cuts_image_rows(unit, layout_.layers), before_cuts_rows_};
    before_cuts_rows_ = rows.cuts;
    if (is_new) first_of_block_ = rows;
    const auto differ = [&](const char* what) -> Status {
      return usage(fmt::format(
          "parallel.layers: {} and {} have the same block, but {} by \"spatial\" in one of them "
          "alone; give all layers with this block and the layer before the first of them the same "
          "strategy",
          first_of_block_.unit, unit.unit, what));
    };
    if (rows.cuts != first_of_block_.cuts) return differ("images are cut");
    const bool reads_alike = rows.reads_cut == first_of_block_.reads_cut;
    return reads_alike ? Status(Done{}) : differ("the images that they read are cut");
  }

  // Two units share an axis only if the second reads hidden units that the first has made.
  void enter(const Graph& unit) {
    of_axis_.clear();
    if (!before_) return;
    for (const Dim& dim : unit.values[size_t(unit.input)].column_dims()) {
      if (is_of_hidden_units(dim.axis)) of_axis_.emplace_back(dim.axis, *before_);
    }
  }
  void leave(const Graph& unit) {
    before_.reset();
    for (const Dim& dim : unit.values[size_t(unit.output)].dims) {
      if (is_of_hidden_units(dim.axis) && !of_axis_.empty()) before_ = of_axis_.back().second;
    }
  }

  // Whether the ranks share out the rows of the images of a unit, and of those that it reads.
  struct UnitRows {
    std::string unit;
    bool cuts = false;
    bool reads_cut = false;
  };

  const ModelSpec& model_;
  const StageShape& layout_;
  UnitRows first_of_block_;
  bool before_cuts_rows_ = false;
  std::vector<bool> is_used_;                     // [rule]
  std::set<std::string> names_;                   // of layers, without their units
  std::vector<std::pair<Axis, Chosen>> of_axis_;  // layers of this unit with an axis that is cut
  std::optional<Chosen> before_;                  // the layer before that made hidden units
};

}  // namespace

std::string layer_name(const Graph& unit, const Op& op) { return layer_name(unit, op.name); }

std::string layer_name(const Graph& unit, std::string name) {
  for (const std::string_view ending : {".weight", ".w"}) {
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  }
  return unit.unit.starts_with("layers.") ? unit.unit + "." + name : name;
}

bool matches_layer(const std::string& pattern, const std::string& layer) {
  for (std::string_view rest = layer;;) {
    if (matches_pattern(pattern, rest)) return true;
    const size_t dot = rest.find('.');
    if (dot == std::string_view::npos) return false;
    rest.remove_prefix(dot + 1);
  }
}

LayerStrategy strategy_of_layer(const Graph& unit, const Op& op,
                                const std::vector<LayerRule>& rules) {
  const bool is_convolution = op.kind == OpKind::Convolution;
  return strategy_by_rules(layer_name(unit, op), rules)
      .value_or(is_convolution ? LayerStrategy::Data : LayerStrategy::Tensor);
}

bool cuts_image_rows(const Graph& unit, const std::vector<LayerRule>& rules) {
  return !unit.image_layer.empty() && is_spatial(layer_name(unit, unit.image_layer), rules);
}

bool input_has_cut_rows(const Graph& unit, const std::vector<LayerRule>& rules) {
  return !unit.input_image_layer.empty() && is_spatial(unit.input_image_layer, rules);
}

Graph leave_whole(Graph stated, const std::vector<LayerRule>& rules) {
  if (rules.empty()) return stated;
  for (const Op& op : stated.ops) {
    if (!is_layer(stated, op)) continue;
    const std::optional<Axis> axis = cut_axis(stated, op);
    if (!axis || strategy_of_layer(stated, op, rules) == LayerStrategy::Tensor) continue;
    for (Value& value : stated.values) make_whole(value.dims, *axis);
    for (Param& param : stated.params) {
      make_whole(param.rows, *axis);
      make_whole(param.columns, *axis);
    }
  }
  return stated;
}

Status check_layer_rules(const ModelSpec& model, const StageShape& layout) {
  if (layout.layers.empty()) return Done{};
  return RuleCheck(model, layout).run();
}

}  // namespace trireme
