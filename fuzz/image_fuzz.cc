#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "data/cifar_images.h"
#include "data/digit_table.h"
#include "data/idx_images.h"
#include "data/image_decoder.h"
#include "data/image_scaling.h"

namespace {

using Bytes = std::span<const uint8_t>;

void must_name(const trireme::Error& error, std::string_view name) {
  if (error.message.find(name) == std::string::npos) std::abort();
}

// Every image of a set is read, with a label below the number of classes.
void check_set(const trireme::ImageSet& set) {
  std::vector<uint8_t> pixels(size_t(set.extents().bytes()));
  for (int64_t i = 0; i < set.size(); ++i) {
    const int32_t label = set.read(i, pixels);
    if (label < 0 || label >= set.num_classes()) std::abort();
  }
}

void check_picture(Bytes bytes) {
  for (int64_t channels : {1, 3}) {
    const auto image = trireme::decode_image(bytes, channels, "picture");
    if (!image.ok()) {
      must_name(image.error(), "picture");
      continue;
    }
    if (int64_t(image->pixels.size()) != image->extents.bytes()) std::abort();
    if (image->extents.pixels() > 1 << 16) continue;  // would take long
    const trireme::ImageExtents wanted{3, 5, channels};
    uint8_t scaled[45];
    trireme::scale_and_cut(image->extents, image->pixels, wanted, {scaled, size_t(wanted.bytes())});
  }
}

void check_idx(Bytes bytes, uint8_t cut) {
  const size_t labels = std::min<size_t>(bytes.size(), cut);
  const auto set =
      trireme::parse_idx_images(bytes.subspan(labels), bytes.first(labels), {"images", "labels"});
  if (set.ok()) return check_set(**set);
  if (set.error().message.find("images") == std::string::npos) must_name(set.error(), "labels");
}

void check_cifar(Bytes bytes) {
  int64_t label_bytes = 0;
  std::vector<uint8_t> pixels;
  std::vector<int32_t> labels;
  const auto read = trireme::parse_cifar_images(bytes, "batch", label_bytes, pixels, labels);
  if (!read.ok()) return must_name(read.error(), "batch");
  check_set(trireme::HeldImages({32, 32, 3}, label_bytes == 1 ? 10 : 100, pixels, labels));
}

void check_digits(Bytes bytes) {
  const auto set = trireme::parse_digit_table(
      {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "table");
  if (set.ok()) return check_set(**set);
  must_name(set.error(), "table");
}

}  // namespace

// Files of images: each is refused with its name, or has the pixels of its extents and labels of
// its classes. The first byte chooses the format, the second one where a pair of idx files is cut.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const Bytes bytes(data + 2, size - 2);
  switch (data[0] % 4) {
    case 0:
      check_picture(bytes);
      break;
    case 1:
      check_idx(bytes, data[1]);
      break;
    case 2:
      check_cifar(bytes);
      break;
    default:
      check_digits(bytes);
  }
  return 0;
}
