#include "graph/layer_strategy.h"

#include <gtest/gtest.h>

#include "graph/all_passes.h"
#include "graph/check_placed.h"
#include "graph/model_graphs.h"
#include "graph/param_table.h"

namespace trireme {
namespace {

ModelSpec alexnet() {
  ModelConfig config;
  config.family = ModelFamily::AlexNet;
  config.layers = 6;
  config.image_size = 63;
  config.vocab_size = 10;
  config.seq_len = 1;
  return with_defaults(config, 0);
}

ModelSpec llama() {
  ModelConfig config;
  config.family = ModelFamily::Llama;
  config.layers = 2;
  config.vocab_size = 64;
  return with_defaults(config, 0);
}

StageShape on_two_ranks(std::vector<LayerRule> rules, bool cuts_rows = true) {
  StageShape shape{.micro_sequences = 4, .tp = 2};
  shape.sequence_parallel = cuts_rows;
  shape.layers = std::move(rules);
  return shape;
}

std::string refusal(const ModelSpec& model, const StageShape& layout) {
  const Status status = check_placements(model, whole_model(model), layout);
  return status.ok() ? "" : status.error().message;
}

int64_t params_of_rank(const ModelSpec& model, const StageShape& layout) {
  int64_t elements = 0;
  for (const ParamSpec& param : local_param_table(model, whole_model(model), layout)) {
    elements += param.shape.num_elements();
  }
  return elements;
}

int num_moves(const ModelSpec& model, const StageShape& layout) {
  int moves = 0;
  for (const Graph& unit : stage_graphs(model, whole_model(model), [&](Graph graph) {
         return placed_graph(std::move(graph), layout);
       })) {
    for (const Op& op : unit.ops) {
      moves += op.kind == OpKind::Redistribute && op.axis == MeshAxis::Tp ? 1 : 0;
    }
  }
  return moves;
}

constexpr LayerStrategy kData = LayerStrategy::Data, kTensor = LayerStrategy::Tensor;

TEST(LayerStrategy, ThePatternsOfTheDefaultChangeNothing) {
  const StageShape usual = on_two_ranks({});
  const StageShape stated = on_two_ranks({{"conv*", kData}, {"fc*", kTensor}});
  const auto placed = [](const StageShape& layout) {
    std::string text;
    for (const Graph& unit : stage_graphs(alexnet(), whole_model(alexnet()), [&](Graph graph) {
           return placed_graph(std::move(graph), layout);
         })) {
      text += to_string(unit);
    }
    return text;
  };
  EXPECT_EQ(refusal(alexnet(), stated), "");
  EXPECT_EQ(placed(stated), placed(usual));
  // Images before the first dense layer, its sums behind the second, and images and softmax parts
  // at the head.
  EXPECT_EQ(num_moves(alexnet(), usual), 4);
}

TEST(LayerStrategy, DenseLayersByDataHaveAllWeightsAndSendNothing) {
  const StageShape by_data = on_two_ranks({{"fc*", kData}});
  EXPECT_EQ(refusal(alexnet(), by_data), "");
  EXPECT_EQ(num_moves(alexnet(), by_data), 2);  // at the head
  EXPECT_EQ(params_of_rank(alexnet(), by_data), num_params(alexnet()) - 5 * (4096 + 1));
}

TEST(LayerStrategy, AnMlpByDataReadsTheTokensOfItsRank) {
  const StageShape by_data = on_two_ranks({{"mlp.*", kData}});
  EXPECT_EQ(refusal(llama(), by_data), "");
  // Each of two layers enters and leaves its MLP no more.
  EXPECT_EQ(num_moves(llama(), by_data), num_moves(llama(), on_two_ranks({})) - 4);
}

TEST(LayerStrategy, RefusalsNameLayerOpAxisAndRemedy) {
  EXPECT_EQ(
      refusal(alexnet(), on_two_ranks({{"layers.3.conv", kTensor}})),
      "parallel.layers: layers.3.conv (convolution) has no strategy \"tensor\" over tp: every "
      "rank has all of its axis channel; take \"data\"");
  EXPECT_EQ(
      refusal(alexnet(), on_two_ranks({{"head", kData}})),
      "parallel.layers: head (softmax_parts) has no strategy \"data\" over tp: the ops beside "
      "it share out its axis vocabulary; take \"tensor\"");
  EXPECT_EQ(refusal(llama(), on_two_ranks({{"attn.wq", kData}})),
            "parallel.layers: layers.0.attn.wq (linear) has no strategy \"data\" over tp: the ops "
            "beside it share out its axis head; take \"tensor\"");
  EXPECT_EQ(
      refusal(llama(), on_two_ranks({{"mlp.*", kData}}, false)),
      "parallel.layers: layers.0.mlp.w_gate (linear) has no strategy \"data\" over tp: every "
      "rank has all rows of its axis token; set parallel.sequence = true, or take \"tensor\"");
  EXPECT_EQ(refusal(alexnet(), on_two_ranks({{"layers.5.fc", kData}})),
            "parallel.layers: layers.5.fc is \"data\", but layers.4.fc, with which it shares the "
            "axis hidden, is \"tensor\"; give both the same strategy");
  EXPECT_EQ(refusal(llama(), on_two_ranks({{"mlp.w_down", kData}})),
            "parallel.layers: layers.0.mlp.w_down is \"data\", but layers.0.mlp.w_gate, with which "
            "it shares the axis hidden, is \"tensor\"; give both the same strategy");
  EXPECT_EQ(
      refusal(alexnet(), on_two_ranks({{"cnov*", kData}})),
      "parallel.layers: the pattern \"cnov*\" matches no layer; this model has conv, fc, head, "
      "stem.conv");
}

TEST(LayerStrategy, TheFirstPatternThatMatchesSays) {
  const StageShape layout = on_two_ranks({{"fc", kData}, {"*fc", kTensor}});
  EXPECT_EQ(num_moves(alexnet(), layout), num_moves(alexnet(), on_two_ranks({{"fc*", kData}})));
  EXPECT_TRUE(matches_layer("fc*", "layers.5.fc"));
  EXPECT_TRUE(matches_layer("layers.5.*", "layers.5.fc"));
  EXPECT_FALSE(matches_layer("f", "layers.5.fc"));
}

}  // namespace
}  // namespace trireme
