#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "data/image_set.h"

namespace trireme {

// Reads the files of MNIST and of sets in its format: idx3 has grey images, idx1 their labels.
// Numbers have 32 bits, the highest byte first. A name that ends in .gz is decompressed.
struct IdxNames {
  std::string images;
  std::string labels;
};
// Returns the files of a split ("train" or "test") in a folder, with their usual names; nullopt if
// there is no file of images.
std::optional<IdxNames> idx_names(const std::string& folder, const std::string& split);

Result<std::unique_ptr<HeldImages>> read_idx_images(const std::string& images,
                                                    const std::string& labels);
// Does the same with the decompressed content of both files. The names are for messages.
Result<std::unique_ptr<HeldImages>> parse_idx_images(std::span<const uint8_t> images,
                                                     std::span<const uint8_t> labels,
                                                     const IdxNames& names);

}  // namespace trireme
