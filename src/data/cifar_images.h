#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/image_set.h"

namespace trireme {

// Reads the binary files of CIFAR: a record for each image of 32 x 32 pixels. A record has one byte
// for the class (CIFAR-10), or two for the coarse and the fine class (CIFAR-100; the fine one
// counts), and then all red, all green and all blue pixels. The length of a file tells which of the
// two it is. All files must be of one kind.
Result<std::unique_ptr<HeldImages>> read_cifar_images(const std::vector<std::string>& files);

// Appends the images of one file's content. `label_bytes` is 1 or 2, or 0 before the first file,
// whose length sets it.
Status parse_cifar_images(std::span<const uint8_t> bytes, const std::string& name,
                          int64_t& label_bytes, std::vector<uint8_t>& pixels,
                          std::vector<int32_t>& labels);

}  // namespace trireme
