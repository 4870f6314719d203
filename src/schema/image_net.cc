#include "schema/image_net.h"

#include <algorithm>

#include "schema/image_window.h"

namespace trireme {
namespace {

constexpr int64_t kFirstChannels = 16;  // of a conv_net
constexpr int64_t kMostDoublings = 12;

// What a block adds to the images that it is given. `size` 0: dense.
ImageBlock convolution(int64_t filters, int64_t size, int64_t stride, int64_t padding) {
  return {.filters = filters, .size = size, .stride = stride, .padding = padding};
}
ImageBlock dense(int64_t filters) { return {.kind = BlockKind::Dense, .filters = filters}; }
ImageBlock with_pool(ImageBlock block, int64_t size, int64_t stride, int64_t padding = 0) {
  block.pool_size = size;
  block.pool_stride = stride;
  block.pool_padding = padding;
  return block;
}
ImageBlock with_norm(ImageBlock block) {
  block.has_norm = true;
  return block;
}

// Krizhevsky (2014), as torchvision has it.
ImageBlock of_alexnet(int64_t block) {
  switch (block) {
    case 0:
      return with_pool(convolution(64, 11, 4, 2), 3, 2);
    case 1:
      return with_pool(convolution(192, 5, 1, 2), 3, 2);
    case 2:
      return convolution(384, 3, 1, 1);
    case 3:
      return convolution(256, 3, 1, 1);
    case 4:
      return with_pool(convolution(256, 3, 1, 1), 3, 2);
    default:
      return dense(4096);
  }
}

// Configuration D of Simonyan and Zisserman (2015).
ImageBlock of_vgg16(int64_t block) {
  constexpr int64_t kFilters[] = {64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512};
  constexpr int64_t kConvolutions = 13;
  if (block >= kConvolutions) return dense(4096);
  const ImageBlock made = convolution(kFilters[block], 3, 1, 1);
  const bool ends_group = block == 1 || block == 3 || block == 6 || block == 9 || block == 12;
  return ends_group ? with_pool(made, 2, 2) : made;
}

// Groups of 3, 4, 6 and 3 bottlenecks (He et al. 2016). The inner channels of wide_resnet are
// wider (Zagoruyko and Komodakis 2016). The window with the stride is the 3 x 3 one.
ImageBlock of_resnet(int64_t block, int64_t width_factor) {
  if (block == 0) return with_pool(with_norm(convolution(64, 7, 2, 3)), 3, 2, 1);
  constexpr int64_t kEnds[] = {3, 7, 13, 16};
  int64_t group = 0;
  while (group < 3 && block > kEnds[group]) ++group;
  const bool is_first = group > 0 && block == kEnds[group - 1] + 1;
  ImageBlock made = with_norm(convolution(int64_t{256} << group, 3, is_first ? 2 : 1, 1));
  made.kind = BlockKind::Bottleneck;
  made.inner = (int64_t{64} << group) * width_factor;
  return made;
}

ImageBlock of_conv_net(int64_t block, int64_t width_factor) {
  const int64_t doublings = std::clamp<int64_t>(block, 0, kMostDoublings);
  ImageBlock made = with_norm(convolution((kFirstChannels * width_factor) << doublings, 3, 1, 1));
  if (block > 0) made.pool_before = 2;
  return made;
}

ImageBlock of_family(const ModelSpec& model, int64_t block) {
  switch (model.family) {
    case ModelFamily::AlexNet:
      return of_alexnet(block);
    case ModelFamily::Vgg16:
      return of_vgg16(block);
    case ModelFamily::ResNet50:
      return of_resnet(block, 1);
    case ModelFamily::WideResNet:
      return of_resnet(block, model.width_factor);
    default:
      return of_conv_net(block, model.width_factor);
  }
}

}  // namespace

int64_t ImageBlock::out(int64_t extent) const {
  if (kind == BlockKind::Dense) return 1;
  const auto positions = [](int64_t n, int64_t window, int64_t step, int64_t zeros) {
    if (window > n + 2 * zeros) return int64_t{0};
    return ImageWindow{.size = window, .stride = step, .padding = zeros}.positions(n);
  };
  if (pool_before > 0) extent = positions(extent, pool_before, pool_before, 0);
  extent = positions(extent, size, stride, padding);
  return pool_size > 0 ? positions(extent, pool_size, pool_stride, pool_padding) : extent;
}

ImageBlock block_of(const ModelSpec& model, int64_t block) {
  int64_t height = model.image_size, width = model.image_size, channels = model.image_channels;
  for (int64_t i = 0;; ++i) {
    ImageBlock made = i <= model.layers ? of_family(model, i) : ImageBlock{};
    made.height = height;
    made.width = width;
    made.channels = channels;
    if (i >= block) return made;
    height = made.out_height();
    width = made.out_width();
    channels = made.filters;
  }
}

int64_t largest_border(const ModelSpec& model) {
  int64_t most = 0;
  for (int64_t block = 1; block <= model.layers + 1; ++block) {
    most = std::max(most, block_of(model, block).features());
  }
  return most;
}

bool averages_before_head(const ModelSpec& model) {
  return model.family == ModelFamily::ResNet50 || model.family == ModelFamily::WideResNet;
}

PixelScale pixel_scale_of(const ModelSpec& model) {
  if (model.family == ModelFamily::ConvNet || model.image_channels != 3) return {};
  constexpr float kMean[] = {0.485f, 0.456f, 0.406f}, kDeviation[] = {0.229f, 0.224f, 0.225f};
  PixelScale scale;
  for (size_t channel = 0; channel < scale.mean.size(); ++channel) {
    scale.mean[channel] = 255.0f * kMean[channel];
    scale.factor[channel] = 1.0f / (255.0f * kDeviation[channel]);
  }
  return scale;
}

int64_t layers_of_family(ModelFamily family, int64_t configured) {
  switch (family) {
    case ModelFamily::AlexNet:
      return 6;
    case ModelFamily::Vgg16:
      return 14;
    default:
      return configured;
  }
}

void make_image_net(const ModelConfig& config, ModelSpec& model) {
  model.image_size = config.image_size;
  model.image_channels = config.image_channels;
  model.width_factor = config.width_factor;
  model.seq_len = 1;
  model.heads = model.kv_heads = model.head_dim = model.v_head_dim = 1;
  model.mlp = MlpType::Relu;
  model.bias = true;
  model.norm_gain = true;
  model.rope = true;  // there are no learned positions
  model.tied_head = false;
  model.final_norm = false;
  if (model.layers < 1 || model.layers > kMostDoublings + 4 || model.image_size < 1) return;
  const ImageBlock head = block_of(model, model.layers + 1);
  model.d_model = averages_before_head(model) ? head.channels : head.features();
  model.d_ff = model.d_model;
}

std::vector<LayerRun> kinds_of_blocks(const ModelSpec& model) {
  std::vector<LayerRun> kinds;
  ImageBlock last;
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    const ImageBlock block = block_of(model, layer + 1);
    if (kinds.empty() || !(block == last)) kinds.push_back({int(kinds.size()), layer, 0});
    ++kinds.back().count;
    last = block;
  }
  return kinds;
}

}  // namespace trireme
