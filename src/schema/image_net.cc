#include "schema/image_net.h"

#include <algorithm>

#include "schema/image_window.h"

namespace trireme {
namespace {

// Channels of the first convolution, if the configuration does not say them.
constexpr int64_t kConvNetChannels = 16, kResNetChannels = 64;
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

// Groups of bottlenecks (He et al. 2016), block by block. The inner channels of wide_resnet are
// wider (Zagoruyko and Komodakis 2016). The window with the stride is the 3 x 3 one.
ImageBlock of_resnet(const ModelSpec& model, int64_t block) {
  const int64_t base = model.base_channels;
  const int64_t wide = model.family == ModelFamily::WideResNet ? model.width_factor : 1;
  if (block == 0) return with_pool(with_norm(convolution(base, 7, 2, 3)), 3, 2, 1);
  const ResNetPlace place = resnet_place(model.layers, block - 1);
  const bool halves = place.group > 0 && place.block == 0;
  const int64_t channels = base << place.group;
  ImageBlock made = with_norm(convolution(4 * channels, 3, halves ? 2 : 1, 1));
  made.kind = BlockKind::Bottleneck;
  made.reduced = channels * (model.widen_first_conv ? wide : 1);
  made.inner = channels * wide;
  return made;
}

ImageBlock of_conv_net(const ModelSpec& model, int64_t block) {
  const int64_t doublings = std::clamp<int64_t>(block, 0, kMostDoublings);
  const int64_t filters = (model.base_channels * model.width_factor) << doublings;
  ImageBlock made = with_norm(convolution(filters, 3, 1, 1));
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
    case ModelFamily::WideResNet:
      return of_resnet(model, block);
    default:
      return of_conv_net(model, block);
  }
}

}  // namespace

ResNetPlace resnet_place(int64_t layers, int64_t layer) {
  const int64_t more = std::max<int64_t>(0, layers - kBlocksOfResNet50);
  const int64_t blocks[] = {3, 4, 6 + more, 3};
  ResNetPlace place{0, layer};
  while (place.group < 3 && place.block >= blocks[place.group]) {
    place.block -= blocks[place.group++];
  }
  return place;
}

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
  const bool is_conv_net = config.family == ModelFamily::ConvNet;
  model.width_factor = config.width_factor;
  model.base_channels = is_conv_net ? kConvNetChannels : kResNetChannels;
  if (config.base_channels > 0) model.base_channels = config.base_channels;
  model.widen_first_conv = config.widen_first_conv;
  model.batch_norm = config.batch_norm;
  model.seq_len = 1;
  model.heads = model.kv_heads = model.head_dim = model.v_head_dim = 1;
  model.mlp = MlpType::Relu;
  model.bias = true;
  model.norm_gain = true;
  model.rope = true;  // there are no learned positions
  model.tied_head = false;
  model.final_norm = false;
  if (model.layers < 1 || model.layers > kMostResNetLayers || model.image_size < 1) return;
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
