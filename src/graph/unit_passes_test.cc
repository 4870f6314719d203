#include "graph/unit_passes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "graph/graph_labels.h"
#include "graph/graph_text.h"
#include "graph/model_graphs.h"
#include "graph/op_placement.h"
#include "graph/param_layout.h"
#include "graph/param_table.h"
#include "graph/stack.h"

namespace trireme {
namespace {

ModelSpec drawn_model(ModelFamily family) {
  ModelConfig config;
  config.family = family;
  config.layers = 3;
  config.d_model = 64;
  config.heads = 8;
  config.kv_heads = family == ModelFamily::Gpt2 ? 8 : 4;
  config.shared_experts = 1;
  config.balance_rate = 0.1;
  config.dropout = 0.1;
  config.vocab_size = 131;
  config.seq_len = 32;
  return *resolve_model(config, 0);
}

void for_every_drawn_layout(
    const std::function<void(const ModelSpec& model, const StageShape& layout)>& visit) {
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Llama, ModelFamily::Moe}) {
    const ModelSpec model = drawn_model(family);
    for (const int tp : {1, 2, 4}) {
      for (const int cp : {1, 2}) {
        for (const ContextExchange exchange : {ContextExchange::Ring, ContextExchange::AllToAll}) {
          if (tp == 4 && cp == 2 && exchange == ContextExchange::AllToAll) continue;
          SCOPED_TRACE(fmt::format("family {} tp {} cp {}", int(family), tp, cp));
          StageShape layout{.micro_sequences = 2, .tp = tp, .tp_rank = tp - 1, .cp = cp};
          layout.sequence_parallel = tp == 2;
          layout.context_exchange = exchange;
          layout.ep = model.has_experts() ? cp : 1;
          visit(model, layout);
        }
      }
    }
  }
}

// The number behind the first space of "head 2 of 4" or "visit <= 64".
int64_t count_in(const std::string& dim) {
  return std::stoll(dim.substr(dim.find_first_of("0123456789")));
}

// The pass joins products and loses none: values and parameters stay, and what is joined once is
// not joined again.
TEST(UnitPasses, StackJoinsProductsOfOneInputAndKeepsTheirParameters) {
  const auto names_of = [](const auto& list) {
    std::multiset<std::string> names;
    for (const auto& entry : list) names.insert(entry.name);
    return names;
  };
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Llama, ModelFamily::Moe}) {
    for (const UnitPasses& unit : unit_passes(drawn_model(family), {})) {
      EXPECT_EQ(to_string(stack(unit.stacked)), to_string(unit.stacked));
      EXPECT_EQ(names_of(unit.stacked.params), names_of(unit.stated.params));
      EXPECT_EQ(names_of(unit.stacked.values), names_of(unit.stated.values));
      for (const Op& op : unit.stated.ops) {
        EXPECT_TRUE(op.kind != OpKind::Linear || op.outputs.size() == 1) << op.name;
        for (const ValueId output : op.outputs) {
          const Op* joined = producer_of(unit.stacked, output);
          ASSERT_NE(joined, nullptr) << op.name;
          EXPECT_EQ(joined->inputs, op.inputs) << op.name;
        }
      }
    }
  }
}

TEST(UnitPasses, EveryUnitOfTheModelIsOneOfTheKinds) {
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Llama, ModelFamily::Moe}) {
    const ModelSpec model = drawn_model(family);
    int64_t num_units = 0;
    for (const UnitPasses& unit : unit_passes(model, {})) num_units += int64_t(unit.names.size());
    EXPECT_EQ(num_units, model.layers + 2);
    EXPECT_EQ(unit_passes(model, {}).size(), 3u);
  }
  ModelSpec model = drawn_model(ModelFamily::Moe);
  model.dense_layers = 1;
  model.dense_d_ff = 96;
  const std::vector<UnitPasses> units = unit_passes(model, {});
  ASSERT_EQ(units.size(), 4u);
  EXPECT_EQ(title_of(units[1]), "layers.0");
  EXPECT_EQ(title_of(units[2]), "layers.1 to layers.2, which are alike");
}

// Every op finds its inputs as one of its strategies needs them, and the unit ends as it must.
TEST(UnitPasses, PlacementsAreThoseThatOpsNeed) {
  for_every_drawn_layout([](const ModelSpec& model, const StageShape& layout) {
    for (const UnitPasses& unit : unit_passes(model, layout)) {
      const Graph& graph = unit.placed;
      const auto at = [&](ValueId value) { return unit.placements[size_t(value)]; };
      for (const Op& op : graph.ops) {
        if (op.kind == OpKind::Redistribute) {
          EXPECT_EQ(at(op.inputs.front()).on(op.axis), op.change.from) << op.name;
          EXPECT_EQ(at(op.outputs.front()).on(op.axis), op.change.to) << op.name;
          continue;
        }
        for (const MeshAxis axis : kAxesInside) {
          std::vector<Placement> inputs;
          for (const ValueId input : op.inputs) inputs.push_back(at(input).on(axis));
          EXPECT_EQ(choose_strategy(strategies_of(graph, op, axis, layout), inputs).inputs, inputs)
              << op.name;
        }
      }
      EXPECT_EQ(at(graph.output), output_placement(graph, layout));
    }
  });
}

// Parts of a dim that tp and cp share out add up to the whole, and only of such a dim.
TEST(GraphLabels, PartsOfRanksAddUpToTheWhole) {
  for_every_drawn_layout([](const ModelSpec& model, const StageShape& layout) {
    const std::vector<UnitPasses> units = unit_passes(model, layout);
    for (const UnitPasses& unit : units) {
      const std::vector<ValuePlacement> none;
      const GraphLabels whole(unit.placed, none, model, layout);
      for (ValueId value = 0; value < ValueId(unit.placed.values.size()); ++value) {
        if (unit.placed.values[size_t(value)].dims.front() == Axis::Visit) continue;
        const ValuePlacement& placement = unit.placements[size_t(value)];
        const auto is_shared = [&](MeshAxis axis) {
          return placement.on(axis).kind == Placement::Kind::Shard &&
                 count_in(whole.dims(value).front()) > layout.micro_sequences;
        };
        int64_t elements = 1, parts = 0;
        for (const std::string& dim : whole.dims(value)) elements *= count_in(dim);
        for (int rank = 0; rank < layout.tp; ++rank) {
          StageShape other = layout;
          other.tp_rank = rank;
          int64_t part = 1;
          const GraphLabels labels(unit.placed, unit.placements, model, other);
          for (const std::string& dim : labels.dims(value)) part *= count_in(dim);
          parts += part;
        }
        const int64_t copies = (is_shared(MeshAxis::Tp) ? 1 : layout.tp);
        const int64_t cuts = is_shared(MeshAxis::Cp) ? layout.cp : 1;
        EXPECT_EQ(parts * cuts, elements * copies)
            << unit.placed.values[size_t(value)].name << " in " << unit.placed.unit;
      }
    }
  });
}

// The first convolution of this AlexNet makes 15 rows from 63: rank 0 makes 8 of them from 37 rows.
TEST(GraphLabels, ShowTheRowsOfARankAndItsHalo) {
  ModelConfig config;
  config.family = ModelFamily::AlexNet;
  config.layers = 6;
  config.image_size = 63;
  config.vocab_size = 10;
  config.seq_len = 1;
  const ModelSpec model = *resolve_model(config, 0);
  StageShape layout{.micro_sequences = 4, .tp = 2, .sequence_parallel = true};
  layout.layers = {{"stem.conv", LayerStrategy::Spatial}};
  const UnitPasses stem = unit_passes(model, layout).front();
  const GraphLabels labels(stem.placed, stem.placements, model, layout);
  std::string text;
  for (ValueId id = 0; id < ValueId(stem.placed.values.size()); ++id) {
    text += fmt::format("{}: {}\n", stem.placed.values[size_t(id)].name,
                        fmt::join(labels.dims(id), ", "));
  }
  EXPECT_EQ(text,
            "bytes: sample 4, row 63, column 63, channel 3\n"
            "pixels: sample 4, row 32 of 63, column 63, channel 3\n"
            "stem.conv: sample 4, row 8 of 15, column 15, channel 64\n"
            "stem.conv.activation: sample 4, row 8 of 15, column 15, channel 64\n"
            "stem.pool_behind: sample 4, row 4 of 7, column 7, channel 64\n"
            "pixels@tp: sample 4, row 37 of 63, column 63, channel 3\n"
            "stem.conv.activation@tp: sample 4, row 9 of 15, column 15, channel 64\n");
}

TEST(GraphLabels, ParametersHaveTheShapesOfTheTable) {
  for_every_drawn_layout([](const ModelSpec& model, const StageShape& layout) {
    const std::vector<ParamLayout> table = param_layouts(model, whole_model(model), layout);
    for (const UnitPasses& unit : unit_passes(model, layout)) {
      const GraphLabels labels(unit.placed, unit.placements, model, layout);
      for (const Op& op : unit.placed.ops) {
        if (op.kind == OpKind::Redistribute) continue;
        for (const ParamId id : labels.held_params(op)) {
          const std::string name = full_name(unit.placed, unit.placed.params[size_t(id)]);
          const auto found =
              std::find_if(table.begin(), table.end(),
                           [&](const ParamLayout& param) { return param.name == name; });
          ASSERT_NE(found, table.end()) << name;
          const bool is_matrix = found->extent.rank() == 2;
          const auto spelled = [&](const Shape& shape) {
            return is_matrix ? fmt::format("{} x {}", shape[0], shape[1])
                             : fmt::format("{}", shape[0]);
          };
          const std::string here = spelled(found->extent), all = spelled(found->global);
          EXPECT_EQ(labels.param_shape(id), here == all ? all : here + " of " + all) << name;
        }
      }
    }
  });
}

TEST(GraphText, UnitsThatAreAlikeAreNamedTogether) {
  UnitPasses unit;
  unit.names = {"head"};
  EXPECT_EQ(title_of(unit), "head");
  unit.names = {"layers.0", "layers.1", "layers.2", "layers.5", "layers.9", "layers.10"};
  EXPECT_EQ(title_of(unit),
            "layers.0 to layers.2, layers.5, layers.9 to layers.10, which are alike");
}

TEST(GraphText, EveryOpHasALineWithItsKindAndItsValues) {
  for_every_drawn_layout([](const ModelSpec& model, const StageShape& layout) {
    for (const UnitPasses& unit : unit_passes(model, layout)) {
      for (const PassView& view : views_of(unit)) {
        const GraphLabels labels(view.graph, view.placements, model, layout);
        std::string text = graph_text(view.graph, labels);
        EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), int64_t(view.graph.ops.size()));
        for (const Op& op : view.graph.ops) {
          const std::string line = text.substr(0, text.find('\n') + 1);
          text.erase(0, line.size());
          EXPECT_EQ(line.find("    " + op.name + " "), 0u) << line;
          EXPECT_NE(line.find(name_of(op.kind)), std::string::npos) << line;
          for (const std::vector<ValueId>& values : {op.inputs, op.outputs}) {
            for (const ValueId value : values) {
              EXPECT_NE(line.find(view.graph.values[size_t(value)].name + "["), std::string::npos)
                  << line;
              for (const std::string& dim : labels.dims(value)) {
                EXPECT_NE(line.find(dim), std::string::npos) << line;
              }
              for (const std::string& placement : labels.placement(value)) {
                EXPECT_NE(line.find(placement), std::string::npos) << line;
              }
            }
          }
        }
      }
    }
  });
}

TEST(GraphText, ALlamaLayerIsListedAsStatedStackedAndPlaced) {
  const ModelSpec model = drawn_model(ModelFamily::Llama);
  StageShape layout{.tp = 2};
  layout.sequence_parallel = true;
  const std::string text = units_text(unit_passes(model, layout), model, layout);
  EXPECT_NE(text.find("layers.0 to layers.2, which are alike"), std::string::npos);
  for (const char* part :
       {"attn.wq[token 32, head 8, head_width 8]",
        "attn.wq[token 32, head 4 of 8, head_width 8; tp shard(1), cp shard(0), ep shard(0)]",
        "norm1[token 16 of 32, width 64; tp shard(0), cp shard(0), ep shard(0)]",
        "over tp: shard(0) to replicate", "over tp: partial to shard(0)\n",
        "over cp: shard(0) to replicate (one rank: nothing moves)\n",
        "attn.wq[head 4 of 8 head_width 8 x width 64]"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
}

}  // namespace
}  // namespace trireme
