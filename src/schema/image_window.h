#pragma once

#include <cstdint>

namespace trireme {

// A square window of `size` x `size` pixels that moves over images by `stride` pixels, and over
// `padding` pixels of zeros around each image. Images are channels last: a row of a matrix is a
// pixel (image, row, column), and its columns are the channels.
struct ImageWindow {
  int64_t images = 0;
  int64_t height = 0;  // pixels of an input image
  int64_t width = 0;
  int64_t size = 1;
  int64_t stride = 1;
  int64_t padding = 0;  // < size

  int64_t out_height() const { return positions(height); }
  int64_t out_width() const { return positions(width); }
  int64_t in_pixels() const { return images * height * width; }
  int64_t out_pixels() const { return images * out_height() * out_width(); }

  // Returns the positions of the window along `extent` pixels; not positive: it does not fit.
  int64_t positions(int64_t extent) const { return (extent + 2 * padding - size) / stride + 1; }
};

}  // namespace trireme
