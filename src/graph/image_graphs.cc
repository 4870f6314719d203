#include "graph/image_graphs.h"

#include <fmt/format.h>

#include "graph/graph_builder.h"
#include "schema/image_net.h"

namespace trireme {
namespace {

// relu(batch_norm(convolution(x))), without the batch norm if the block has none, between its pools
ValueId convolution_block(GraphBuilder& g, const ImageBlock& block, const std::string& prefix,
                          ValueId x) {
  if (block.pool_before > 0) {
    x = g.pool(prefix + "pool", x, {.size = block.pool_before, .stride = block.pool_before}, false);
  }
  const ImageWindow window{.size = block.size, .stride = block.stride, .padding = block.padding};
  ValueId y = g.convolution(prefix + "conv", x, block.filters, window, !block.has_norm);
  if (block.has_norm) y = g.batch_norm(prefix + "norm", y);
  y = g.activation(y);
  if (block.pool_size == 0) return y;
  return g.pool(
      prefix + "pool_behind", y,
      {.size = block.pool_size, .stride = block.pool_stride, .padding = block.pool_padding}, false);
}

// relu(shortcut(x) + norm3(conv3(relu(norm2(conv2(relu(norm1(conv1(x)))))))))
ValueId bottleneck(GraphBuilder& g, const ImageBlock& block, ValueId x) {
  const auto normed = [&](const std::string& number, ValueId from, int64_t filters,
                          const ImageWindow& window) {
    return g.batch_norm("norm" + number,
                        g.convolution("conv" + number, from, filters, window, false));
  };
  const ImageWindow middle{.size = block.size, .stride = block.stride, .padding = block.padding};
  ValueId h = g.activation(normed("1", x, block.reduced, {}));
  h = g.activation(normed("2", h, block.inner, middle));
  h = normed("3", h, block.filters, {});
  const bool keeps_shape = block.stride == 1 && block.channels == block.filters;
  const ValueId shortcut =
      keeps_shape ? x : normed("_shortcut", x, block.filters, {.stride = block.stride});
  return g.activation(g.add("sum", shortcut, h));
}

// The input of a unit that begins with this block: the images that the block reads.
ValueId input_of(GraphBuilder& g, const ImageBlock& block, const std::string& name,
                 Numbers numbers = Numbers::Compute) {
  return g.input(name,
                 {Axis::Sample, Dim(Axis::Row, block.height), Dim(Axis::Column, block.width),
                  Dim(Axis::Channel, block.channels)},
                 numbers, 3);
}

bool is_dense(const ModelSpec& model, int64_t block) {
  return block_of(model, block).kind == BlockKind::Dense;
}

// True if this dense block makes hidden units for a second one behind it, like the two products of
// an MLP. Ranks that share out the units exchange nothing between these two blocks.
bool makes_hidden_units(const ModelSpec& model, int64_t block) {
  return block > 0 && is_dense(model, block) && is_dense(model, block + 1) &&
         !makes_hidden_units(model, block - 1);
}
Dim features_made_by(const ModelSpec& model, int64_t block) {
  return {makes_hidden_units(model, block) ? Axis::Hidden : Axis::Feature,
          block_of(model, block).filters};
}

// Returns the name of the first convolution of a block in its unit; "" if it has none.
std::string convolution_of(const ModelSpec& model, int64_t block) {
  if (block == 0) return "stem.conv";
  switch (block_of(model, block).kind) {
    case BlockKind::Convolution:
      return "conv";
    case BlockKind::Bottleneck:
      return "conv1";
    case BlockKind::Dense:
      break;
  }
  return "";
}

// Returns the name of a block's convolution in the whole model. The block must have one.
std::string full_convolution_of(const ModelSpec& model, int64_t block) {
  const std::string name = convolution_of(model, block);
  return block == 0 ? name : fmt::format("layers.{}.{}", block - 1, name);
}

// The input of a block or of the head. It is features behind a dense block, and images otherwise.
ValueId input_of_block(GraphBuilder& g, const ModelSpec& model, int64_t block,
                       const std::string& name) {
  const ImageBlock reads = block_of(model, block);
  if (!is_dense(model, block - 1)) {
    g.set_input_image_layer(full_convolution_of(model, block - 1));
    return input_of(g, reads, name);
  }
  return g.input(name, {Axis::Sample, features_made_by(model, block - 1)});
}

// True if model.dropout drops features before this block. As in torchvision, AlexNet drops them
// before its dense layers, and VGG-16 behind those.
bool drops_before(const ModelSpec& model, int64_t block) {
  if (model.family == ModelFamily::AlexNet) return block <= model.layers;
  return model.family == ModelFamily::Vgg16 && block > 0 && is_dense(model, block - 1);
}

ValueId flat(GraphBuilder& g, ValueId x) { return g.value(x).num_row_dims > 1 ? g.flatten(x) : x; }

}  // namespace

Graph first_image_graph(const ModelSpec& model) {
  GraphBuilder g(model, "embedding");
  const ImageBlock block = block_of(model, 0);
  g.set_image_layer(convolution_of(model, 0));
  const ValueId x = g.pixels(input_of(g, block, "bytes", Numbers::U8));
  return g.output(convolution_block(g, block, "stem.", x));
}

Graph block_graph(const ModelSpec& model, int64_t layer, const std::string& unit) {
  GraphBuilder g(model, unit);
  const ImageBlock block = block_of(model, layer + 1);
  const ValueId x = input_of_block(g, model, layer + 1, "x");
  g.set_image_layer(convolution_of(model, layer + 1));
  switch (block.kind) {
    case BlockKind::Convolution:
      return g.output(convolution_block(g, block, "", x));
    case BlockKind::Bottleneck:
      return g.output(bottleneck(g, block, x));
    case BlockKind::Dense:
      break;
  }
  const ValueId features = flat(g, x);
  const bool drops = drops_before(model, layer + 1);
  return g.output(g.relu_linear("fc.w", drops ? g.dropout("fc.dropout", features) : features,
                                features_made_by(model, layer + 1)));
}

Graph image_head_graph(const ModelSpec& model) {
  GraphBuilder g(model, "head");
  const ImageBlock reads = block_of(model, model.layers + 1);
  ValueId y = input_of_block(g, model, model.layers + 1, "y");
  if (averages_before_head(model)) {
    y = g.pool("head.pool", y, {.size = reads.height, .stride = 1}, true);
  }
  y = flat(g, y);
  if (drops_before(model, model.layers + 1)) y = g.dropout("head.dropout", y);
  const char* bias = model.family == ModelFamily::ConvNet ? "" : "head.bias";
  return g.output(g.cross_entropy(g.softmax_parts("head.weight", y, bias)));
}

}  // namespace trireme
