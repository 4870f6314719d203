#include "data/idx_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "data/whole_file.h"

namespace trireme {
namespace {

constexpr int64_t kMostExtent = 4096;

uint32_t big_endian(std::span<const uint8_t> bytes, size_t offset) {
  return uint32_t{bytes[offset]} << 24 | uint32_t{bytes[offset + 1]} << 16 |
         uint32_t{bytes[offset + 2]} << 8 | uint32_t{bytes[offset + 3]};
}

// Reads the extents of an idx file of bytes with so many dims.
Result<std::vector<int64_t>> idx_extents(std::span<const uint8_t> bytes, size_t dims,
                                         const std::string& name) {
  const size_t header = 4 + 4 * dims;
  if (bytes.size() < header) {
    return damaged(fmt::format("{} has {} bytes; the header of an idx file with {} dims has {}",
                               name, bytes.size(), dims, header));
  }
  const uint32_t magic = big_endian(bytes, 0);
  const uint32_t wanted = 0x0800 + uint32_t(dims);
  if (magic != wanted) {
    return damaged(
        fmt::format("{} starts with {:#010x}; an idx file of bytes with {} dims starts "
                    "with {:#010x}",
                    name, magic, dims, wanted));
  }
  std::vector<int64_t> extents;
  for (size_t dim = 0; dim < dims; ++dim) extents.push_back(big_endian(bytes, 4 + 4 * dim));
  return extents;
}

Status check_length(int64_t bytes, int64_t wanted, const std::string& name) {
  if (bytes == wanted) return Done{};
  return damaged(fmt::format("{} has {} bytes; by its header it has {}", name, bytes, wanted));
}

}  // namespace

std::optional<IdxNames> idx_names(const std::string& folder, const std::string& split) {
  const std::string start = folder + "/" + (split == "train" ? "train" : "t10k");
  for (const char* end : {"", ".gz"}) {
    const IdxNames names{start + "-images-idx3-ubyte" + end, start + "-labels-idx1-ubyte" + end};
    if (std::filesystem::exists(names.images)) return names;
  }
  return std::nullopt;
}

Result<std::unique_ptr<HeldImages>> parse_idx_images(std::span<const uint8_t> images,
                                                     std::span<const uint8_t> labels,
                                                     const IdxNames& names) {
  TRIREME_TRY(extents, idx_extents(images, 3, names.images));
  TRIREME_TRY(label_extents, idx_extents(labels, 1, names.labels));
  const ImageExtents image{extents[1], extents[2], 1};
  if (std::clamp<int64_t>(image.height, 1, kMostExtent) != image.height ||
      std::clamp<int64_t>(image.width, 1, kMostExtent) != image.width) {
    return damaged(fmt::format("{} has images of {} x {}; extents from 1 to {} can be read",
                               names.images, image.height, image.width, kMostExtent));
  }
  TRIREME_TRY_DONE(
      check_length(int64_t(images.size()), 16 + extents[0] * image.bytes(), names.images));
  TRIREME_TRY_DONE(check_length(int64_t(labels.size()), 8 + label_extents[0], names.labels));
  if (extents[0] != label_extents[0] || extents[0] == 0) {
    return damaged(
        fmt::format("{} has {} images and {} has {} labels; both need the same number, "
                    "1 or more",
                    names.images, extents[0], names.labels, label_extents[0]));
  }
  const std::vector<int32_t> classes(labels.begin() + 8, labels.end());
  const int64_t num_classes = 1 + *std::max_element(classes.begin(), classes.end());
  return std::make_unique<HeldImages>(
      image, num_classes, std::vector<uint8_t>(images.begin() + 16, images.end()), classes);
}

Result<std::unique_ptr<HeldImages>> read_idx_images(const std::string& images,
                                                    const std::string& labels) {
  TRIREME_TRY(image_bytes, read_whole_file(images));
  TRIREME_TRY(label_bytes, read_whole_file(labels));
  return parse_idx_images(image_bytes, label_bytes, {images, labels});
}

}  // namespace trireme
