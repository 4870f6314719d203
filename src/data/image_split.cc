#include "data/image_split.h"

#include <cmath>
#include <utility>

#include "base/check.h"

namespace trireme {

ImageSplit::ImageSplit(std::shared_ptr<const ImageSet> images, double fraction, Part part)
    : images_(std::move(images)) {
  TRIREME_CHECK(fraction >= 0.0 && fraction < 1.0, "a share of the images is held out");
  for (int64_t i = 0; i < images_->size(); ++i) {
    const bool is_held_out =
        std::floor(double(i + 1) * fraction) > std::floor(double(i) * fraction);
    if (is_held_out == (part == Part::HeldOut)) chosen_.push_back(i);
  }
}

int32_t ImageSplit::read(int64_t index, std::span<uint8_t> pixels) const {
  TRIREME_CHECK(index >= 0 && index < size(), "an image of the part is read");
  return images_->read(chosen_[size_t(index)], pixels);
}

}  // namespace trireme
