#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace trireme {

// An image is [row, column, channel], 8 bits per channel: channels last, as kernels read them.
struct ImageExtents {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;  // 1: grey; 3: red, green, blue

  int64_t pixels() const { return height * width; }
  int64_t bytes() const { return pixels() * channels; }
  friend bool operator==(const ImageExtents&, const ImageExtents&) = default;
};

// Images of one size, each with the number of its class. An image depends only on its index.
class ImageSet {
 public:
  virtual ~ImageSet() = default;

  virtual ImageExtents extents() const = 0;
  virtual int64_t size() const = 0;
  virtual int64_t num_classes() const = 0;
  // Returns the name of a class, or its number if the data have no names.
  virtual std::string class_name(int64_t label) const { return std::to_string(label); }

  // Writes the extents().bytes() bytes of an image, and returns its class, in [0, num_classes()).
  // Several threads may call it. Throws IoError with the name of the file if an image is damaged.
  virtual int32_t read(int64_t index, std::span<uint8_t> pixels) const = 0;
};

// Images that are held in memory as a whole.
class HeldImages : public ImageSet {
 public:
  // pixels has extents.bytes() for each label, and labels are below num_classes.
  HeldImages(ImageExtents extents, int64_t num_classes, std::vector<uint8_t> pixels,
             std::vector<int32_t> labels);
  ImageExtents extents() const override { return extents_; }
  int64_t size() const override { return int64_t(labels_.size()); }
  int64_t num_classes() const override { return num_classes_; }
  int32_t read(int64_t index, std::span<uint8_t> pixels) const override;

 private:
  ImageExtents extents_;
  int64_t num_classes_;
  std::vector<uint8_t> pixels_;
  std::vector<int32_t> labels_;
};

// Opens what `path` names: a folder with MNIST's idx files, with CIFAR's binary files, or with a
// folder of PNG and JPEG files for each class; or a table of digits (.csv, .csv.gz). `split` is
// "train" or "test" if the format has both. Images of a folder are scaled and cut to `extents`.
Result<std::unique_ptr<ImageSet>> open_image_set(const std::string& path, const std::string& split,
                                                 const ImageExtents& extents);

}  // namespace trireme
