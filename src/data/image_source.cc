#include "data/image_source.h"

#include <utility>

#include "base/check.h"

namespace trireme {

ImageSource::ImageSource(std::shared_ptr<const ImageSet> images, uint64_t seed,
                         const ImageAugmentation& augmentation)
    : images_(std::move(images)),
      order_(seed, images_->size() + 1, 1),
      move_key_(rng_key(seed, "data.images.move")),
      augmentation_(augmentation) {}

int32_t ImageSource::read_sample(uint64_t global_sample, std::span<uint8_t> scratch,
                                 std::span<float> pixels) const {
  const ImageExtents shape = extents();
  TRIREME_CHECK(
      int64_t(scratch.size()) == scratch_bytes() && int64_t(pixels.size()) == shape.bytes(),
      "a sample is read into its pixels, through scratch for two images");
  const auto whole = scratch.first(size_t(shape.bytes()));
  const auto moved = scratch.subspan(size_t(shape.bytes()));
  const int32_t label = images_->read(image_of(global_sample), whole);
  move_image(shape, image_move(augmentation_, move_key_, global_sample), whole, moved);
  for (size_t i = 0; i < moved.size(); ++i) {
    pixels[i] = (float(moved[i]) - 127.5f) * (1.0f / 64.0f);
  }
  return label;
}

}  // namespace trireme
