#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/image_set.h"

namespace trireme {

// A folder has a folder with PNG and JPEG files for each class; classes are in the order of their
// names. Files whose names do not end in .png, .jpg or .jpeg are left out. An image is decoded each
// time it is read, and then scaled and cut to the extents of the set.
class ImageFolder : public ImageSet {
 public:
  // Lists the files; it opens none of them.
  static Result<std::unique_ptr<ImageFolder>> open(const std::string& folder,
                                                   const ImageExtents& extents);

  ImageExtents extents() const override { return extents_; }
  int64_t size() const override { return int64_t(files_.size()); }
  int64_t num_classes() const override { return int64_t(classes_.size()); }
  std::string class_name(int64_t label) const override { return classes_[size_t(label)]; }
  int32_t read(int64_t index, std::span<uint8_t> pixels) const override;

 private:
  ImageFolder() = default;
  std::string folder_;
  ImageExtents extents_;
  std::vector<std::string> classes_;
  std::vector<std::pair<int32_t, std::string>> files_;  // class and name in its folder
};

}  // namespace trireme
