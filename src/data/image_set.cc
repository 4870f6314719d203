#include "data/image_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "data/cifar_images.h"
#include "data/digit_table.h"
#include "data/idx_images.h"
#include "data/image_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Returns the files of CIFAR-10 or CIFAR-100 in a folder, in their order.
std::vector<std::string> cifar_files(const std::string& folder, const std::string& split) {
  std::vector<std::string> names;
  if (split == "train") {
    for (int i = 1; i <= 5; ++i) names.push_back(fmt::format("data_batch_{}.bin", i));
    names.push_back("train.bin");
  } else {
    names = {"test_batch.bin", "test.bin"};
  }
  std::vector<std::string> files;
  for (const std::string& name : names) {
    if (fs::exists(folder + "/" + name)) files.push_back(folder + "/" + name);
  }
  return files;
}

template <typename T>
Result<std::unique_ptr<ImageSet>> as_image_set(Result<std::unique_ptr<T>> set) {
  if (!set.ok()) return set.error();
  return std::unique_ptr<ImageSet>(std::move(*set));
}

}  // namespace

HeldImages::HeldImages(ImageExtents extents, int64_t num_classes, std::vector<uint8_t> pixels,
                       std::vector<int32_t> labels)
    : extents_(extents),
      num_classes_(num_classes),
      pixels_(std::move(pixels)),
      labels_(std::move(labels)) {
  TRIREME_CHECK(int64_t(pixels_.size()) == extents_.bytes() * int64_t(labels_.size()),
                "every image has its pixels and its label");
}

int32_t HeldImages::read(int64_t index, std::span<uint8_t> pixels) const {
  TRIREME_CHECK(index >= 0 && index < size() && int64_t(pixels.size()) == extents_.bytes(),
                fmt::format("image {} of {} was asked for, with {} bytes of {}", index, size(),
                            pixels.size(), extents_.bytes()));
  std::memcpy(pixels.data(), pixels_.data() + index * extents_.bytes(), pixels.size());
  return labels_[size_t(index)];
}

Result<std::unique_ptr<ImageSet>> open_image_set(const std::string& path, const std::string& split,
                                                 const ImageExtents& extents) {
  std::error_code failure;
  if (!fs::is_directory(path, failure)) return as_image_set(read_digit_table(path));
  if (auto names = idx_names(path, split)) {
    return as_image_set(read_idx_images(names->images, names->labels));
  }
  if (auto files = cifar_files(path, split); !files.empty()) {
    return as_image_set(read_cifar_images(files));
  }
  const std::string classes = path + "/" + split;
  return as_image_set(
      ImageFolder::open(fs::is_directory(classes, failure) ? classes : path, extents));
}

}  // namespace trireme
