#include "data/cifar_images.h"

#include <fmt/format.h>

#include "data/whole_file.h"

namespace trireme {
namespace {

constexpr ImageExtents kCifarExtents{32, 32, 3};
constexpr int64_t kCifarPixels = 32 * 32;

int64_t record_bytes(int64_t label_bytes) { return label_bytes + 3 * kCifarPixels; }
int64_t classes_of(int64_t label_bytes) { return label_bytes == 1 ? 10 : 100; }

}  // namespace

Status parse_cifar_images(std::span<const uint8_t> bytes, const std::string& name,
                          int64_t& label_bytes, std::vector<uint8_t>& pixels,
                          std::vector<int32_t>& labels) {
  const int64_t length = int64_t(bytes.size());
  if (label_bytes == 0) label_bytes = length % record_bytes(1) == 0 ? 1 : 2;
  const int64_t record = record_bytes(label_bytes);
  if (length == 0 || length % record != 0) {
    return damaged(
        fmt::format("{} has {} bytes, which are no whole number of records: {} bytes in "
                    "CIFAR-10, {} in CIFAR-100",
                    name, length, record_bytes(1), record_bytes(2)));
  }
  for (int64_t image = 0; image * record < length; ++image) {
    const auto whole = bytes.subspan(size_t(image * record), size_t(record));
    const int32_t label = whole[size_t(label_bytes - 1)];
    if (label >= classes_of(label_bytes)) {
      return damaged(fmt::format("{}: image {} has the class {}; CIFAR-{} has classes 0 to {}",
                                 name, image, label, classes_of(label_bytes),
                                 classes_of(label_bytes) - 1));
    }
    labels.push_back(label);
    const auto planes = whole.subspan(size_t(label_bytes));
    for (int64_t pixel = 0; pixel < kCifarPixels; ++pixel) {
      for (int64_t c = 0; c < 3; ++c) pixels.push_back(planes[size_t(c * kCifarPixels + pixel)]);
    }
  }
  return Done{};
}

Result<std::unique_ptr<HeldImages>> read_cifar_images(const std::vector<std::string>& files) {
  int64_t label_bytes = 0;
  std::vector<uint8_t> pixels;
  std::vector<int32_t> labels;
  for (const std::string& file : files) {
    TRIREME_TRY(bytes, read_whole_file(file));
    TRIREME_TRY_DONE(parse_cifar_images(bytes, file, label_bytes, pixels, labels));
  }
  return std::make_unique<HeldImages>(kCifarExtents, classes_of(label_bytes), std::move(pixels),
                                      std::move(labels));
}

}  // namespace trireme
