#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "schema/image_window.h"

namespace trireme {

// True if an output pixel reads one pixel, its own: then a convolution is a product of matrices.
inline bool reads_own_pixel(const ImageWindow& window) {
  return window.size == 1 && window.stride == 1 && window.padding == 0;
}

// The scratch of backward_input: the filters with their elements in another order, and the fp32
// gradients of every stride-th pixel, which one product computes.
struct ConvolutionScratch {
  int64_t filter_bytes = 0;
  int64_t gradient_bytes = 0;
  int64_t bytes() const { return filter_bytes + gradient_bytes; }
};
inline ConvolutionScratch convolution_scratch(const ImageWindow& window, int64_t groups,
                                              int64_t channels, int64_t filters, DType dtype) {
  if (reads_own_pixel(window)) return {};
  const int64_t elements = filters * window.size * window.size * (channels / groups);
  const auto every_stride = [&](int64_t n) { return (n + window.stride - 1) / window.stride; };
  const int64_t pixels = window.images * every_stride(window.height) * every_stride(window.width);
  return {.filter_bytes = (elements * size_of(dtype) + 63) / 64 * 64,
          .gradient_bytes = window.stride == 1 ? 0 : pixels * (channels / groups) * 4};
}

}  // namespace trireme
