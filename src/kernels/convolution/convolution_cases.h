#pragma once

#include <vector>

#include "schema/image_window.h"

namespace trireme {

struct ConvolutionShape {
  ImageWindow window;
  int64_t channels;
  int64_t filters;
  int64_t groups = 1;
};

// Windows of one pixel, of the whole image and larger than it, strides that leave pixels out and
// strides that leave remainders without a filter's element, images that are not square, groups,
// elements of filters that miss every multiple of a vector, a panel and a block of k, and pixels
// with more channels than a block of k. Then there are bands of rows: the first, the last and
// inner ones of an image, and one with a row that no window reads. In the last one, a tile of the
// gradient has sums outside of c and several blocks of k.
inline constexpr ConvolutionShape kConvolutionShapes[] = {
    {{1, 1, 1, 1, 1, 0}, 1, 1},          {{2, 4, 3, 1, 1, 0}, 5, 7},
    {{1, 5, 4, 3, 1, 1}, 3, 4},          {{2, 5, 5, 3, 1, 1}, 16, 16},
    {{1, 4, 4, 4, 1, 0}, 2, 3},          {{1, 2, 3, 3, 1, 2}, 3, 2},
    {{2, 7, 6, 3, 2, 1}, 4, 5},          {{1, 9, 9, 5, 4, 2}, 3, 6},
    {{2, 5, 6, 1, 2, 0}, 3, 5},          {{1, 7, 7, 2, 3, 0}, 2, 3},
    {{1, 12, 11, 11, 4, 2}, 3, 8},       {{2, 6, 5, 3, 1, 1}, 8, 12, 4},
    {{1, 6, 7, 3, 2, 1}, 6, 6, 3},       {{3, 4, 4, 3, 1, 1}, 4, 4, 4},
    {{1, 3, 3, 1, 1, 0}, 6, 4, 2},       {{1, 3, 3, 3, 1, 1}, 130, 70},
    {{1, 14, 13, 3, 1, 1}, 33, 17},      {{1, 2, 3, 3, 1, 1}, 512, 5},
    {{1, 2, 2, 3, 1, 1}, 3, 1024},       {{2, 4, 5, 3, 1, 1, 3, 1}, 16, 9},
    {{2, 3, 6, 3, 2, 1, 2, 0}, 5, 7},    {{1, 5, 6, 3, 2, 1, 2, 0}, 4, 6, 2},
    {{1, 9, 12, 7, 2, 3, 3, 3}, 3, 8},   {{2, 5, 4, 1, 2, 0, 2, 0}, 4, 4},
    {{1, 19, 11, 11, 4, 2, 3, 0}, 3, 8}, {{1, 20, 20, 3, 1, 1}, 100, 384},
};

// A convolution that a net has `count` times.
struct NetConvolution {
  ConvolutionShape shape;
  int count = 1;
};
struct ConvolutionNet {
  const char* name;
  std::vector<NetConvolution> layers;
};

// The convolutions of ResNet-50 (He et al. 2016) and of AlexNet (Krizhevsky 2014) for images of
// 224 x 224 pixels.
inline std::vector<ConvolutionNet> convolution_nets() {
  const auto layer = [](int64_t images, int64_t extent, int64_t size, int64_t stride,
                        int64_t padding, int64_t channels, int64_t filters, int count) {
    return NetConvolution{{{images, extent, extent, size, stride, padding}, channels, filters},
                          count};
  };
  ConvolutionNet resnet{"resnet50", {layer(4, 224, 7, 2, 3, 3, 64, 1)}};
  int64_t before = 64, extent = 56, blocks = 3;  // channels and pixels before a group of blocks
  for (int64_t channels : {64, 128, 256, 512}) {
    const int64_t stride = channels == 64 ? 1 : 2, inside = extent / stride, after = 4 * channels;
    const int more = int(blocks - 1);
    resnet.layers.push_back(layer(4, extent, 1, 1, 0, before, channels, 1));
    resnet.layers.push_back(layer(4, extent, 3, stride, 1, channels, channels, 1));
    resnet.layers.push_back(layer(4, inside, 1, 1, 0, channels, after, more + 1));
    resnet.layers.push_back(layer(4, extent, 1, stride, 0, before, after, 1));
    resnet.layers.push_back(layer(4, inside, 1, 1, 0, after, channels, more));
    resnet.layers.push_back(layer(4, inside, 3, 1, 1, channels, channels, more));
    before = after;
    extent = inside;
    blocks = channels == 64 ? 4 : channels == 128 ? 6 : 3;
  }
  return {resnet,
          {"alexnet",
           {layer(8, 224, 11, 4, 2, 3, 64, 1), layer(8, 27, 5, 1, 2, 64, 192, 1),
            layer(8, 13, 3, 1, 1, 192, 384, 1), layer(8, 13, 3, 1, 1, 384, 256, 1),
            layer(8, 13, 3, 1, 1, 256, 256, 1)}}};
}

}  // namespace trireme
