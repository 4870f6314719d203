#include "data/synthetic_images.h"

#include <string>

#include "base/check.h"

namespace trireme {

SyntheticImages::SyntheticImages(uint64_t seed, const ImageExtents& extents, int64_t num_classes,
                                 int64_t size, std::string_view split)
    : extents_(extents),
      num_classes_(num_classes),
      size_(size),
      key_(rng_key(seed, "data.images." + std::string(split))) {
  TRIREME_CHECK(extents.bytes() > 0 && num_classes > 0 && size > 0,
                "synthetic images have pixels, classes and a number");
  const RngKey pattern_key = rng_key(seed, "data.images.patterns");
  patterns_.reserve(size_t(num_classes * extents.bytes()));
  for (int64_t label = 0; label < num_classes; ++label) {
    for (int64_t i = 0; i < extents.bytes(); ++i) {
      const int64_t channel = i % extents.channels, pixel = i / extents.channels;
      const int64_t row = pixel / extents.width / 2, col = pixel % extents.width / 2;
      const int64_t patch = (row * extents.width + col) * extents.channels + channel;
      const uint32_t word = philox(pattern_key, counter_of(uint64_t(label), uint64_t(patch)))[0];
      patterns_.push_back(word % 2 == 0 ? 32 : 224);
    }
  }
}

int32_t SyntheticImages::read(int64_t index, std::span<uint8_t> pixels) const {
  TRIREME_CHECK(index >= 0 && index < size_ && int64_t(pixels.size()) == extents_.bytes(),
                "an image of the set is read into its bytes");
  const PhiloxCounter words = philox(key_, counter_of(uint64_t(index), 0));
  const int32_t label = int32_t((uint64_t{words[0]} * uint64_t(num_classes_)) >> 32);
  const int64_t down = words[1] % 2, right = words[2] % 2;
  const uint8_t* pattern = patterns_.data() + label * extents_.bytes();
  for (int64_t i = 0; i < extents_.bytes(); ++i) {
    const int64_t channel = i % extents_.channels, pixel = i / extents_.channels;
    const int64_t row = (pixel / extents_.width + down) % extents_.height;
    const int64_t col = (pixel % extents_.width + right) % extents_.width;
    const PhiloxCounter noise = philox(key_, counter_of(uint64_t(index), 1 + uint64_t(i)));
    pixels[size_t(i)] = noise[0] % 2 == 0
                            ? uint8_t(noise[1] >> 24)
                            : pattern[(row * extents_.width + col) * extents_.channels + channel];
  }
  return label;
}

}  // namespace trireme
