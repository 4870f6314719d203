#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/image_set.h"

namespace trireme {

// An image of any extents.
struct DecodedImage {
  ImageExtents extents;
  std::vector<uint8_t> pixels;  // [row, column, channel]
};

enum class ImageFormat { Png, Jpeg };

// Finds out the format by the first bytes. If it is neither PNG nor JPEG, the error has `name` and
// the first bytes.
Result<ImageFormat> image_format(std::span<const uint8_t> bytes, const std::string& name);

// Decodes a PNG or a JPEG to `channels` channels, 1 (grey) or 3 (red, green, blue). Opacity is
// ignored. If the decoder notices damage, such as a file that ends early, the error has `name` and
// says what is wrong.
Result<DecodedImage> decode_image(std::span<const uint8_t> bytes, int64_t channels,
                                  const std::string& name);

// The parts of decode_image() for each format.
Result<DecodedImage> decode_png(std::span<const uint8_t> bytes, int64_t channels,
                                const std::string& name);
Result<DecodedImage> decode_jpeg(std::span<const uint8_t> bytes, int64_t channels,
                                 const std::string& name);

// Returns an error if the image has no pixel, or far more bytes of pixels than a file of
// `file_bytes` can hold: a small file may claim to be a very large image.
Status check_image_extents(const ImageExtents& extents, int64_t file_bytes,
                           const std::string& name);

}  // namespace trireme
