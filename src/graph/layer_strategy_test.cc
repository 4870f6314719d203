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

constexpr LayerStrategy kData = LayerStrategy::Data, kTensor = LayerStrategy::Tensor,
                        kSpatial = LayerStrategy::Spatial;

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
      "rank has all of its axis channel; take \"data\" or \"spatial\"");
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

// The last pool of AlexNet leaves one row of pixels, so its last convolution is by data.
TEST(LayerStrategy, SpatialConvolutionsReadHalosAndLeaveWholeImagesForDenseLayers) {
  const StageShape by_rows = on_two_ranks({{"layers.3.conv", kData}, {"conv*", kSpatial}});
  EXPECT_EQ(refusal(alexnet(), by_rows), "");
  std::string text;
  for (const Graph& unit : stage_graphs(alexnet(), whole_model(alexnet()), [&](Graph graph) {
         return placed_graph(std::move(graph), by_rows);
       })) {
    text += to_string(unit);
  }
  const auto count = [&](const std::string& part) {
    int found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
      ++found;
    }
    return found;
  };
  EXPECT_EQ(count("over tp: shard(1) to halo(11 rows, stride 4, padding 2)"), 1);
  EXPECT_EQ(count("over tp: shard(1) to halo(5 rows, stride 1, padding 2)"), 1);
  EXPECT_EQ(count("over tp: shard(1) to halo(3 rows, stride 1, padding 1)"), 2);
  EXPECT_EQ(count("over tp: shard(1) to halo(3 rows, stride 2, padding 0)"), 2);  // pools
  EXPECT_EQ(count("over tp: shard(1) to shard(0)"), 1);  // before the convolution by data
  EXPECT_EQ(num_moves(alexnet(), by_rows), num_moves(alexnet(), on_two_ranks({})) + 7);
  EXPECT_EQ(params_of_rank(alexnet(), by_rows), params_of_rank(alexnet(), on_two_ranks({})));
}

TEST(LayerStrategy, RefusalsOfSpatialNameLayerOpAxisAndRemedy) {
  EXPECT_EQ(refusal(alexnet(), on_two_ranks({{"fc*", kSpatial}})),
            "parallel.layers: layers.4.fc (linear) has no strategy \"spatial\" over tp: it has no "
            "axis row, which convolutions alone have; take \"tensor\"");
  EXPECT_EQ(
      refusal(llama(), on_two_ranks({{"attn.*", kSpatial}})),
      "parallel.layers: layers.0.attn.wq (linear) has no strategy \"spatial\" over tp: it has "
      "no axis row, which convolutions alone have; take \"tensor\"");
  EXPECT_EQ(refusal(alexnet(), on_two_ranks({{"conv*", kSpatial}})),
            "parallel.layers: layers.3.pool_behind (pool) has no strategy \"spatial\" over tp: its "
            "axis row has 1 row for 2 ranks; take \"data\" for layers.3.conv, or a smaller "
            "parallel.tp");
  ModelConfig config;
  config.family = ModelFamily::ResNet50;
  config.layers = 4;
  config.image_size = 32;
  config.vocab_size = 10;
  config.seq_len = 1;
  const ModelSpec resnet = with_defaults(config, 0);
  EXPECT_EQ(refusal(resnet, on_two_ranks({{"conv*", kSpatial}})), "");
  EXPECT_EQ(
      refusal(resnet, on_two_ranks({{"layers.3.conv2", kSpatial}})),
      "parallel.layers: layers.3.conv2 is \"spatial\", but layers.3.conv1, which is a part of "
      "the same unit, is \"data\"; give both the same strategy");
  EXPECT_EQ(
      refusal(resnet, on_two_ranks({{"layers.1.conv*", kSpatial}})),
      "parallel.layers: layers.1 and layers.2 have the same block, but images are cut by "
      "\"spatial\" in one of them alone; give all layers with this block and the layer before the "
      "first of them the same strategy");
  EXPECT_EQ(
      refusal(resnet, on_two_ranks({{"layers.1.conv*", kSpatial}, {"layers.2.conv*", kSpatial}})),
      "parallel.layers: layers.1 and layers.2 have the same block, but the images that they read "
      "are cut by \"spatial\" in one of them alone; give all layers with this block and the layer "
      "before the first of them the same strategy");
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
