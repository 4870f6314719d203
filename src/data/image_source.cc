#include "data/image_source.h"

#include <utility>
#include <vector>

#include "base/check.h"

namespace trireme {

ImageSource::ImageSource(std::shared_ptr<const ImageSet> images, uint64_t seed,
                         const ImageAugmentation& augmentation)
    : images_(std::move(images)),
      order_(seed, images_->size() + 1, 1),
      move_key_(rng_key(seed, "data.images.move")),
      augmentation_(augmentation) {}

int32_t ImageSource::read_bytes(uint64_t global_sample, std::span<uint8_t> scratch,
                                std::span<uint8_t> bytes) const {
  const ImageExtents shape = extents();
  TRIREME_CHECK(int64_t(scratch.size()) >= shape.bytes() && int64_t(bytes.size()) == shape.bytes(),
                "an image is read into its bytes, through scratch for one");
  const auto whole = scratch.first(size_t(shape.bytes()));
  const int32_t label = images_->read(image_of(global_sample), whole);
  move_image(shape, image_move(augmentation_, move_key_, global_sample), whole, bytes);
  return label;
}

void ImageSource::read_sample(uint64_t global_sample, std::span<int32_t> inputs,
                              std::span<int32_t> targets) const {
  // The first image that a thread reads takes the memory, before the first step is over.
  thread_local std::vector<uint8_t> scratch;
  const size_t size = size_t(extents().bytes());
  if (scratch.size() < size) scratch.resize(size);
  const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(inputs.data()),
                                 inputs.size() * sizeof(int32_t));
  targets.front() = read_bytes(global_sample, scratch, bytes.first(size));
}

int32_t ImageSource::read_sample(uint64_t global_sample, std::span<uint8_t> scratch,
                                 std::span<float> pixels) const {
  TRIREME_CHECK(
      int64_t(scratch.size()) == scratch_bytes() && int64_t(pixels.size()) == extents().bytes(),
      "a sample is read into its pixels, through scratch for two images");
  const auto moved = scratch.last(scratch.size() / 2);
  const int32_t label = read_bytes(global_sample, scratch.first(scratch.size() / 2), moved);
  for (size_t i = 0; i < moved.size(); ++i) {
    pixels[i] = (float(moved[i]) - 127.5f) * (1.0f / 64.0f);
  }
  return label;
}

}  // namespace trireme
