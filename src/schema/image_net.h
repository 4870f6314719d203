#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "schema/model_spec.h"

namespace trireme {

// The nets of images that are known by name, as lists of blocks. The first block is the first unit
// of the model, behind the pixels; the others are its layers.

enum class BlockKind : uint8_t {
  Convolution,  // pool, convolution, batch norm, ReLU, pool, as far as the block has them
  Bottleneck,   // a residual block of three convolutions (He et al. 2016)
  Dense,        // linear and ReLU, of all numbers of an image
};

struct ImageBlock {
  BlockKind kind = BlockKind::Convolution;
  int64_t height = 0, width = 0, channels = 0;  // of an image that it reads; 1 x 1: features
  int64_t filters = 0;                          // channels of what it makes
  int64_t reduced = 0;                          // Bottleneck: of the first convolution,
  int64_t inner = 0;                            // and of the second
  int64_t size = 1, stride = 1, padding = 0;    // of the convolution's window
  bool has_norm = false;
  int64_t pool_before = 0;                                   // window and stride; 0: none
  int64_t pool_size = 0, pool_stride = 1, pool_padding = 0;  // behind; 0: none

  int64_t out_height() const { return out(height); }
  int64_t out_width() const { return out(width); }
  int64_t features() const { return height * width * channels; }

  friend bool operator==(const ImageBlock&, const ImageBlock&) = default;

 private:
  int64_t out(int64_t extent) const;
};

// Block 0 is the first unit's, block i + 1 that of layer i. Block layers + 1 has the extents that
// the head reads, and nothing else.
ImageBlock block_of(const ModelSpec& model, int64_t block);
// Numbers of an image at the widest border between two units.
int64_t largest_border(const ModelSpec& model);
// The head averages every channel over the image before it classifies.
bool averages_before_head(const ModelSpec& model);

// The group of a ResNet's layer and its number in the group. The groups have 3, 4, 6 and 3 blocks;
// with more than 16 layers the third has more, as in ResNet-101 (33 layers). A net of fewer has the
// first of them.
struct ResNetPlace {
  int group = 0;
  int64_t block = 0;
};
ResNetPlace resnet_place(int64_t layers, int64_t layer);
inline constexpr int64_t kBlocksOfResNet50 = 16, kMostResNetLayers = 33;

// Number of layers of the family. A conv_net and a ResNet have as many as the configuration says.
int64_t layers_of_family(ModelFamily family, int64_t configured);

// What losses, FLOPs and speeds of a model are counted by: "token" or "image".
inline std::string_view counted_unit(const ModelSpec& model) {
  return model.reads_images() ? "image" : "token";
}

// How the bytes of an image become numbers: (byte - mean) * factor, for each channel. Nets of three
// channels that are known by name take the means and deviations of ImageNet, as torchvision does.
struct PixelScale {
  std::array<float, 3> mean = {127.5f, 127.5f, 127.5f};
  std::array<float, 3> factor = {1.0f / 64.0f, 1.0f / 64.0f, 1.0f / 64.0f};
};
PixelScale pixel_scale_of(const ModelSpec& model);

// Fills in what a net of images has. Sizes that model_rules refuses do no harm.
void make_image_net(const ModelConfig& config, ModelSpec& model);
std::vector<LayerRun> kinds_of_blocks(const ModelSpec& model);

}  // namespace trireme
