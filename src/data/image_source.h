#pragma once

#include <memory>
#include <span>

#include "data/image_augmentation.h"
#include "data/image_set.h"
#include "data/sampler.h"
#include "data/token_source.h"

namespace trireme {

// Training or held-out samples of an image set. A sample depends only on its global number: every
// epoch reads each image once, in a keyed order, and varies it by keyed numbers.
class ImageSource : public TokenSource {
 public:
  // Shares the set with the other sources of a run.
  ImageSource(std::shared_ptr<const ImageSet> images, uint64_t seed,
              const ImageAugmentation& augmentation);

  ImageExtents extents() const { return images_->extents(); }
  int64_t num_classes() const { return images_->num_classes(); }
  int64_t vocab_size() const override { return num_classes(); }
  void read_sample(uint64_t global_sample, std::span<int32_t> inputs,
                   std::span<int32_t> targets) const override;
  // Returns the bytes of `scratch`. Every reading thread has scratch of its own.
  int64_t scratch_bytes() const { return 2 * extents().bytes(); }

  // Writes the bytes of the image, varied, and returns the class.
  int32_t read_bytes(uint64_t global_sample, std::span<uint8_t> scratch,
                     std::span<uint8_t> bytes) const;
  // Writes the pixels as (byte - 127.5) / 64, about 0 on average with a spread of about 1, and
  // returns the class.
  int32_t read_sample(uint64_t global_sample, std::span<uint8_t> scratch,
                      std::span<float> pixels) const;
  // Returns the image of a sample.
  int64_t image_of(uint64_t global_sample) const { return order_.first_token(global_sample); }
  double epochs_of(uint64_t num_samples) const override {
    return double(num_samples) / double(images_->size());
  }

 private:
  std::shared_ptr<const ImageSet> images_;
  Sampler order_;  // windows of one image
  RngKey move_key_;
  ImageAugmentation augmentation_;
};

}  // namespace trireme
