#pragma once

#include <cstdint>

#include "schema/image_rows.h"

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
  // Above 0: `height` counts a band of the rows of an image, from which this many rows are made.
  // The first window begins `band_padding` rows above the band. What lies below it is padding.
  int64_t band_rows = 0;
  int64_t band_padding = 0;

  int64_t out_height() const { return band_rows > 0 ? band_rows : positions(height); }
  int64_t out_width() const { return positions(width); }
  int64_t in_pixels() const { return images * height * width; }
  int64_t out_pixels() const { return images * out_height() * out_width(); }
  // Rows of padding above the first row.
  int64_t padding_above() const { return band_rows > 0 ? band_padding : padding; }
  RowWindow rows() const { return {size, stride, padding}; }

  // Returns the positions of the window along `extent` pixels; not positive: it does not fit.
  int64_t positions(int64_t extent) const { return rows().positions(extent); }
  // True if every window contains at least one row of the image or band.
  bool fits_rows() const {
    if (band_rows == 0) return size <= height + 2 * padding;
    return band_padding < size && (band_rows - 1) * stride - band_padding < height;
  }
};

}  // namespace trireme
