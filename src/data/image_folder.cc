#include "data/image_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "data/image_decoder.h"
#include "data/image_scaling.h"
#include "data/whole_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostImageFileBytes = int64_t{256} << 20;

bool is_image_name(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  });
  return name.ends_with(".png") || name.ends_with(".jpg") || name.ends_with(".jpeg");
}

// Returns the names of the entries of a folder for which `wanted` is true. They are sorted, so the
// order of the file system does not matter.
template <typename Wanted>
Result<std::vector<std::string>> sorted_names(const std::string& folder, Wanted&& wanted) {
  std::error_code failure;
  std::vector<std::string> names;
  for (auto entry = fs::directory_iterator(folder, failure);
       !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    if (wanted(*entry)) names.push_back(entry->path().filename().string());
  }
  if (failure) return damaged(fmt::format("cannot read {}: {}", folder, failure.message()));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

Result<std::unique_ptr<ImageFolder>> ImageFolder::open(const std::string& folder,
                                                       const ImageExtents& extents) {
  std::error_code failure;
  TRIREME_TRY(classes, sorted_names(folder, [&](const fs::directory_entry& entry) {
                return entry.is_directory(failure);
              }));
  std::unique_ptr<ImageFolder> set(new ImageFolder);
  set->folder_ = folder;
  set->extents_ = extents;
  for (const std::string& name : classes) {
    TRIREME_TRY(files, sorted_names(folder + "/" + name, [&](const fs::directory_entry& entry) {
                  return entry.is_regular_file(failure) &&
                         is_image_name(entry.path().filename().string());
                }));
    if (files.empty()) continue;
    for (const std::string& file : files) {
      set->files_.emplace_back(int32_t(set->classes_.size()), file);
    }
    set->classes_.push_back(name);
  }
  if (set->files_.empty()) {
    return damaged(fmt::format(
        "{} has no images: it needs a folder for each class with .png, .jpg or .jpeg files, or the "
        "files of MNIST (train-images-idx3-ubyte) or CIFAR (data_batch_1.bin)",
        folder));
  }
  return set;
}

int32_t ImageFolder::read(int64_t index, std::span<uint8_t> pixels) const {
  const auto& [label, name] = files_[size_t(index)];
  const std::string path = folder_ + "/" + classes_[size_t(label)] + "/" + name;
  const auto decoded = [&]() -> Result<DecodedImage> {
    TRIREME_TRY(bytes, read_whole_file(path, kMostImageFileBytes));
    return decode_image(bytes, extents_.channels, path);
  }();
  if (!decoded.ok()) throw IoError(decoded.error().message);
  scale_and_cut(decoded->extents, decoded->pixels, extents_, pixels);
  return label;
}

}  // namespace trireme
