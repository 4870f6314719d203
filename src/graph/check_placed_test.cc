#include "graph/check_placed.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "graph/model_graphs.h"
#include "graph/moves.h"
#include "graph/op_placement.h"
#include "graph/place.h"
#include "graph/stack.h"

namespace trireme {
namespace {

struct Case {
  ModelSpec model;
  StageSpec stage;
  StageShape shape;
};

ModelSpec model_of(ModelFamily family, bool embedding_norm) {
  ModelConfig config;
  config.family = family;
  config.layers = 2;
  config.d_model = 64;
  config.heads = 8;
  config.kv_heads = family == ModelFamily::Gpt2 ? 8 : 2;
  config.shared_experts = 1;
  config.balance_rate = 0.1;
  config.vocab_size = 131;  // no number of ranks divides it
  config.seq_len = 32;
  config.embedding_norm = embedding_norm;
  config.tied_head = family == ModelFamily::Gpt2;
  return *resolve_model(config, 0);
}

void for_every_case(const std::function<void(const Case&)>& visit) {
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Llama, ModelFamily::Moe}) {
    for (const bool embedding_norm : {false, true}) {
      const ModelSpec model = model_of(family, embedding_norm);
      for (const StageSpec& stage :
           {whole_model(model), StageSpec{0, 1, true, false}, StageSpec{1, 1, false, true}}) {
        for (const int tp : {1, 2, 4, 8}) {
          for (const bool sequence_parallel : {false, true}) {
            SCOPED_TRACE(fmt::format("{} tp {} sequence {} from layer {}", int(family), tp,
                                     sequence_parallel, stage.first_layer));
            StageShape shape{.micro_sequences = 5};
            shape.tp = tp;
            shape.tp_rank = tp - 1;
            shape.sequence_parallel = sequence_parallel;
            visit({model, stage, shape});
            if (tp > 2) continue;
            shape.cp = 4;
            visit({model, stage, shape});
            shape.cp = tp == 1 ? 2 : 1;
            shape.context_exchange = ContextExchange::AllToAll;
            shape.ep = model.has_experts() ? 2 : 1;
            visit({model, stage, shape});
            shape.cp = 1;
            shape.ep *= shape.ep;
            visit({model, stage, shape});
          }
        }
      }
    }
  }
}

std::vector<Graph> placed_units(const Case& c) {
  return stage_graphs(c.model, c.stage,
                      [&](Graph unit) { return place(stack(std::move(unit)), c.shape); });
}

// The message of the check; "" where it finds nothing.
std::string refusal(const std::vector<Graph>& units, const std::vector<ParamLayout>& layouts,
                    const StageShape& shape) {
  const Status status = check_placed(units, layouts, shape);
  return status.ok() ? "" : status.error().message;
}

// Visits every redistribution of a stage with a copy of its units that may be damaged.
void for_every_redistribution(
    const Case& c, const std::function<void(std::vector<Graph>&, Graph&, size_t)>& visit) {
  const std::vector<Graph> right = placed_units(c);
  for (size_t u = 0; u < right.size(); ++u) {
    for (size_t i = 0; i < right[u].ops.size(); ++i) {
      if (right[u].ops[i].kind != OpKind::Redistribute) continue;
      std::vector<Graph> units = right;
      visit(units, units[u], i);
    }
  }
}

ValueId copy_value(Graph& graph, ValueId value) {
  const Value copy = graph.values[size_t(value)];
  graph.values.push_back(copy);
  return ValueId(graph.values.size()) - 1;
}

TEST(PlacedGraph, EveryStageOnEveryNumberOfRanksIsConsistent) {
  for_every_case([](const Case& c) {
    const Status status = check_placements(c.model, c.stage, c.shape);
    EXPECT_TRUE(status.ok()) << status.error().message;
  });
}

// One redistribution at a time is left out: its reader then finds another placement, and the
// message names the mesh axis.
TEST(PlacedGraph, ARedistributionLeftOutIsCaught) {
  for_every_case([](const Case& c) {
    const auto layouts = param_layouts(c.model, c.stage, c.shape);
    for_every_redistribution(c, [&](std::vector<Graph>& units, Graph& unit, size_t i) {
      Op& op = unit.ops[i];
      op.change = {op.change.from, op.change.from};
      const std::string message = refusal(units, layouts, c.shape);
      ASSERT_FALSE(message.empty()) << to_string(unit);
      EXPECT_NE(message.find("over " + std::string(name_of(op.axis))), std::string::npos)
          << message;
    });
  });
}

TEST(PlacedGraph, ARedistributionDoneTwiceIsCaught) {
  for_every_case([](const Case& c) {
    const auto layouts = param_layouts(c.model, c.stage, c.shape);
    // On the result of the first time.
    for_every_redistribution(c, [&](std::vector<Graph>& units, Graph& unit, size_t i) {
      Op again = unit.ops[i];
      const ValueId once = copy_value(unit, again.outputs.front());
      unit.ops[i].outputs = {once};
      again.inputs = {once};
      unit.ops.insert(unit.ops.begin() + int64_t(i) + 1, again);
      const std::string message = refusal(units, layouts, c.shape);
      EXPECT_NE(message.find(unit.unit + "." + again.name), std::string::npos) << message;
    });
    // Beside it, on the same addends.
    for_every_redistribution(c, [&](std::vector<Graph>& units, Graph& unit, size_t i) {
      Op again = unit.ops[i];
      again.outputs = {copy_value(unit, again.outputs.front())};
      unit.ops.insert(unit.ops.begin() + int64_t(i) + 1, again);
      EXPECT_FALSE(refusal(units, layouts, c.shape).empty()) << again.name;
    });
  });
}

// A gradient whose addends are not summed, or that is summed where it is whole already.
TEST(PlacedGraph, AGradientSummedByTheWrongRanksIsCaught) {
  for_every_case([](const Case& c) {
    const std::vector<Graph> units = placed_units(c);
    const auto right = param_layouts(c.model, c.stage, c.shape);
    const auto expect_refusal = [&](const std::vector<ParamLayout>& wrong, size_t i) {
      const std::string message = refusal(units, wrong, c.shape);
      EXPECT_NE(message.find(right[i].name), std::string::npos) << message;
      return message;
    };
    for (size_t i = 0; i < right.size(); ++i) {
      std::vector<ParamLayout> wrong = right;
      wrong[i].grad_addends = right[i].grad_addends > 1 ? 1 : 2;
      expect_refusal(wrong, i);
      wrong = right;
      wrong[i].cp_addends = right[i].cp_addends > 1 ? 1 : 2;
      EXPECT_NE(expect_refusal(wrong, i).find("over cp"), std::string::npos);
      wrong = right;
      wrong.erase(wrong.begin() + int64_t(i));
      expect_refusal(wrong, i);
    }
  });
}

// Megatron: 8 b s h (t - 1) / t elements per layer and micro-batch, sent by a rank in forward and
// backward, by a ring; with sequence parallelism the same, and two all_gathers where the weights'
// gradients are made.
TEST(PlacedGraph, ALayerMovesWhatTheClosedFormSays) {
  const ModelSpec model = model_of(ModelFamily::Gpt2, false);
  const StageSpec layers{0, 2, false, false};
  for (const int tp : {2, 4, 8}) {
    for (const bool sequence_parallel : {false, true}) {
      for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
        StageShape shape{.micro_sequences = 4, .recompute = recompute};
        shape.tp = tp;
        shape.sequence_parallel = sequence_parallel;
        const StageMoves moves = stage_moves(model, layers, shape);
        const auto elements = [&](const std::vector<TensorMove>& list) {
          int64_t sum = 0;
          for (const TensorMove& move : list) {
            const bool sums = move.change.from == Placement::partial();
            const bool spreads = !(move.change.to == Placement::shard(0));
            const bool gathers = move.change.from == Placement::shard(0);
            const int64_t passes = (sums ? 1 : 0) + ((sums && spreads) || gathers ? 1 : 0);
            sum += passes * move.global.num_elements() * (tp - 1) / tp;
          }
          return sum / layers.num_layers;
        };
        const int64_t bsh = 4 * model.seq_len * model.d_model;
        EXPECT_EQ(elements(moves.forward) + elements(moves.backward_input),
                  8 * bsh * (tp - 1) / tp);
        EXPECT_EQ(elements(moves.backward_weight), sequence_parallel ? 2 * bsh * (tp - 1) / tp : 0);
        // Attention's sum again, and what both blocks gather.
        EXPECT_EQ(
            elements(moves.recompute),
            recompute != Recompute::Full ? 0 : (sequence_parallel ? 3 : 2) * bsh * (tp - 1) / tp);
      }
    }
  }
}

TEST(PlacedGraph, DegreesThatDoNotFitAreRefusedByKeyAndRule) {
  const ModelSpec model = model_of(ModelFamily::Llama, false);
  const auto refusal_of = [&](StageShape shape) {
    const Status status = check_placements(model, whole_model(model), shape);
    return status.ok() ? "" : status.error().message;
  };
  EXPECT_EQ(refusal_of({.tp = 2}), "");
  EXPECT_EQ(refusal_of({.tp = 3}), "parallel.tp = 3 must divide model.heads = 8");
  EXPECT_EQ(refusal_of({.cp = 5}),
            "parallel.cp = 5 must divide half of model.seq_len = 32, because every rank has two "
            "chunks");
  EXPECT_EQ(refusal_of({.ep = 2}), "parallel.ep = 2 splits experts");
  EXPECT_EQ(refusal_of({.tp = 4, .cp = 2, .context_exchange = ContextExchange::AllToAll}),
            "parallel.context = \"all_to_all\" shares heads out: parallel.cp = 2 must divide the 1 "
            "kv heads of a rank");
}

}  // namespace
}  // namespace trireme
