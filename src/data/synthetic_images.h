#pragma once

#include <string_view>
#include <vector>

#include "base/philox.h"
#include "data/image_set.h"

namespace trireme {

// Images with classes that can be learned, for runs without data: every class has a pattern of
// bright and dark patches of 2 x 2 pixels, and an image is the pattern of its class, moved by up to
// 1 pixel to the right and down, half covered by noise. A class is as frequent as any other.
class SyntheticImages : public ImageSet {
 public:
  // Images of different splits show the same patterns and share nothing else.
  SyntheticImages(uint64_t seed, const ImageExtents& extents, int64_t num_classes, int64_t size,
                  std::string_view split = "train");

  ImageExtents extents() const override { return extents_; }
  int64_t size() const override { return size_; }
  int64_t num_classes() const override { return num_classes_; }
  int32_t read(int64_t index, std::span<uint8_t> pixels) const override;

 private:
  ImageExtents extents_;
  int64_t num_classes_, size_;
  RngKey key_;
  std::vector<uint8_t> patterns_;  // [class][row][column][channel]
};

}  // namespace trireme
