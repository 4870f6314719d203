#include "data/image_augmentation.h"

#include <algorithm>
#include <cstring>

namespace trireme {

ImageMove image_move(const ImageAugmentation& augmentation, RngKey key, uint64_t global_sample) {
  const PhiloxCounter words = philox(key, counter_of(global_sample, 0));
  const auto offset = [&](uint32_t word) {
    const uint64_t choices = 2 * uint64_t(augmentation.crop_margin) + 1;
    return int64_t((uint64_t{word} * choices) >> 32) - augmentation.crop_margin;
  };
  return {.is_flipped = augmentation.flip && words[0] >> 31 != 0,
          .down = offset(words[1]),
          .right = offset(words[2])};
}

void move_image(const ImageExtents& extents, const ImageMove& move, std::span<const uint8_t> pixels,
                std::span<uint8_t> out) {
  const int64_t channels = extents.channels;
  std::fill(out.begin(), out.end(), uint8_t{0});
  for (int64_t row = 0; row < extents.height; ++row) {
    const int64_t from_row = row + move.down;
    if (from_row < 0 || from_row >= extents.height) continue;
    for (int64_t col = 0; col < extents.width; ++col) {
      const int64_t moved = col + move.right;
      if (moved < 0 || moved >= extents.width) continue;
      const int64_t from_col = move.is_flipped ? extents.width - 1 - moved : moved;
      std::memcpy(out.data() + (row * extents.width + col) * channels,
                  pixels.data() + (from_row * extents.width + from_col) * channels,
                  size_t(channels));
    }
  }
}

}  // namespace trireme
