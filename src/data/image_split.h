#pragma once

#include <memory>

#include "data/image_set.h"

namespace trireme {

// The images of a set that are held out, or the others. A share `fraction` of the images, spread
// evenly over the set, is held out.
class ImageSplit : public ImageSet {
 public:
  enum class Part { Training, HeldOut };
  // 0 <= fraction < 1. Both parts share the set.
  ImageSplit(std::shared_ptr<const ImageSet> images, double fraction, Part part);

  ImageExtents extents() const override { return images_->extents(); }
  int64_t size() const override { return int64_t(chosen_.size()); }
  int64_t num_classes() const override { return images_->num_classes(); }
  std::string class_name(int64_t label) const override { return images_->class_name(label); }
  int32_t read(int64_t index, std::span<uint8_t> pixels) const override;

 private:
  std::shared_ptr<const ImageSet> images_;
  std::vector<int64_t> chosen_;
};

}  // namespace trireme
