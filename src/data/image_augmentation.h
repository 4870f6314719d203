#pragma once

#include <span>

#include "base/philox.h"
#include "data/image_set.h"

namespace trireme {

// How training images are varied. Both depend only on the number of the global sample, so every
// layout and every resumed run sees the same images.
struct ImageAugmentation {
  bool flip = false;        // left and right change places in half of the samples
  int64_t crop_margin = 0;  // the image is moved by up to so many pixels in each dim; black enters
};

// How an image is moved: pixel (row, column) of the result is pixel (row + down, column + right) of
// the image, counted from the right if it is flipped.
struct ImageMove {
  bool is_flipped = false;
  int64_t down = 0;
  int64_t right = 0;
};
ImageMove image_move(const ImageAugmentation& augmentation, RngKey key, uint64_t global_sample);

void move_image(const ImageExtents& extents, const ImageMove& move, std::span<const uint8_t> pixels,
                std::span<uint8_t> out);

}  // namespace trireme
