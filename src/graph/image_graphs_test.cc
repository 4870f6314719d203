#include <gtest/gtest.h>

#include <algorithm>

#include "graph/check_placed.h"
#include "graph/model_graphs.h"
#include "graph/param_table.h"
#include "graph/work.h"
#include "schema/image_net.h"

namespace trireme {
namespace {

ModelSpec net(ModelFamily family, int64_t layers, int64_t image_size, int64_t width_factor = 1) {
  ModelConfig config;
  config.family = family;
  config.layers = layers;
  config.image_size = image_size;
  config.width_factor = width_factor;
  config.vocab_size = 1000;
  config.seq_len = 1;
  const Result<ModelSpec> model = resolve_model(config, 0);
  EXPECT_TRUE(model.ok()) << model.error().message;
  return *model;
}

// Parameters that a gradient trains; the mean and variance of batch norms are none.
int64_t trained_params(const ModelSpec& model) {
  int64_t total = 0;
  for (const ParamSpec& param : param_table(model, whole_model(model))) {
    if (param.running_rate == 0.0) total += param.shape.num_elements();
  }
  return total;
}

// The published counts are those of torchvision.
TEST(ImageGraphs, TheKnownNetsHaveTheParametersAndFlopsThatArePublished) {
  struct Known {
    ModelSpec model;
    int64_t params;
    double forward_flops;  // of a sample, two for each multiplication
  };
  for (const Known& known : {Known{net(ModelFamily::AlexNet, 6, 224), 61'100'840, 1.429e9},
                             Known{net(ModelFamily::Vgg16, 14, 224), 138'357'544, 30.94e9},
                             Known{net(ModelFamily::ResNet50, 16, 224), 25'557'032, 8.18e9},
                             Known{net(ModelFamily::WideResNet, 16, 224, 2), 68'883'240, 22.8e9}}) {
    EXPECT_EQ(trained_params(known.model), known.params);
    double flops = 0.0;
    const auto add = [&](const Graph& unit) {
      for (const ModelFlops& op : forward_flops(unit, known.model)) flops += op.total();
    };
    add(embedding_graph(known.model));
    for (int64_t i = 0; i < known.model.layers; ++i) add(layer_graph(known.model, i));
    add(head_graph(known.model));
    EXPECT_NEAR(flops / known.forward_flops, 1.0, 0.01);
  }
}

// With 33 layers and no wider channels it is ResNet-101, of which torchvision prints the count. The
// nets of Alpa (Zheng et al. 2022) are named by their sizes, which are rounded.
TEST(ImageGraphs, WideResNetsOfOtherDepthsAndChannelsHaveTheirPublishedSizes) {
  EXPECT_EQ(trained_params(net(ModelFamily::WideResNet, 33, 224)), 44'549'160);
  struct Known {
    int64_t layers, base_channels, width_factor;
    double params;
  };
  for (const Known& known : {Known{16, 160, 2, 250e6}, Known{16, 224, 2, 500e6},
                             Known{16, 320, 2, 1e9}, Known{16, 448, 2, 2e9}, Known{16, 640, 2, 4e9},
                             Known{16, 320, 16, 6.8e9}, Known{33, 320, 16, 13e9}}) {
    ModelConfig config;
    config.family = ModelFamily::WideResNet;
    config.layers = known.layers;
    config.base_channels = known.base_channels;
    config.width_factor = known.width_factor;
    config.widen_first_conv = false;
    config.image_size = 224;
    config.vocab_size = 1024;
    config.seq_len = 1;
    const Result<ModelSpec> model = resolve_model(config, 0);
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_NEAR(double(trained_params(*model)) / known.params, 1.0, 0.03) << known.params;
  }
}

// Kinds of layers are found from blocks, and layers of one kind have one graph.
TEST(ImageGraphs, LayersOfOneKindHaveTheSameGraphAndNeighbouringKindsAnother) {
  for (const ModelSpec& model :
       {net(ModelFamily::ResNet50, 16, 64), net(ModelFamily::Vgg16, 14, 64),
        net(ModelFamily::ConvNet, 3, 16)}) {
    int64_t next = 0;
    for (const LayerRun& kind : layer_kinds(model)) {
      EXPECT_EQ(kind.first, next);
      next += kind.count;
      const Graph first = layer_graph(model, kind.first);
      const auto is_same = [&](const Graph& other) {
        return first.params.size() == other.params.size() &&
               std::equal(first.values.begin(), first.values.end(), other.values.begin(),
                          other.values.end(), [](const Value& a, const Value& b) {
                            return a.name == b.name && a.dims == b.dims;
                          });
      };
      for (int64_t i = 1; i < kind.count; ++i) {
        EXPECT_TRUE(is_same(layer_graph(model, kind.first + i)));
      }
      if (next < model.layers) {
        EXPECT_FALSE(is_same(layer_graph(model, next)));
      }
    }
    EXPECT_EQ(next, model.layers);
  }
}

TEST(ImageGraphs, EveryUnitReadsWhatTheUnitBeforeWrites) {
  for (const ModelSpec& model :
       {net(ModelFamily::AlexNet, 6, 224), net(ModelFamily::ResNet50, 16, 96),
        net(ModelFamily::ConvNet, 2, 8)}) {
    const std::vector<Graph> units =
        stage_graphs(model, whole_model(model), [](Graph graph) { return graph; });
    for (size_t i = 1; i < units.size(); ++i) {
      EXPECT_EQ(units[i].values[size_t(units[i].input)].dims,
                units[i - 1].values[size_t(units[i - 1].output)].dims)
          << units[i].unit;
    }
  }
}

TEST(ImageGraphs, AnImageThatIsTooSmallIsRefusedWithTheBlockThatHasNoPixelLeft) {
  ModelConfig config;
  config.family = ModelFamily::ConvNet;
  config.layers = 5;
  config.image_size = 8;
  config.vocab_size = 10;
  config.seq_len = 1;
  const Result<ModelSpec> model = resolve_model(config, 0);
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message.find("leaves no pixel for block 4 of 5"), std::string::npos)
      << model.error().message;
}

}  // namespace
}  // namespace trireme
