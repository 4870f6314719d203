#include "data/image_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/input_limits.h"

namespace trireme {

Status check_image_extents(const ImageExtents& extents, int64_t file_bytes,
                           const std::string& name) {
  constexpr int64_t kMostExtent = int64_t{1} << 20;
  const bool has_pixels = std::min(extents.height, extents.width) > 0 &&
                          std::max(extents.height, extents.width) <= kMostExtent;
  const int64_t most = std::max(limits::kUnpackedFreeBytes, limits::kUnpackedRatio * file_bytes);
  if (has_pixels && extents.bytes() <= most) return Done{};
  return damaged(
      fmt::format("{} claims to have {} x {} pixels, which a file of {} bytes cannot hold", name,
                  extents.height, extents.width, file_bytes));
}

Result<ImageFormat> image_format(std::span<const uint8_t> bytes, const std::string& name) {
  constexpr std::array<uint8_t, 8> kPng = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  constexpr std::array<uint8_t, 3> kJpeg = {0xff, 0xd8, 0xff};
  const auto starts_with = [&](std::span<const uint8_t> magic) {
    return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
  };
  if (starts_with(kPng)) return ImageFormat::Png;
  if (starts_with(kJpeg)) return ImageFormat::Jpeg;
  std::string first;
  for (size_t i = 0; i < std::min<size_t>(bytes.size(), 8); ++i) {
    first += fmt::format(" {:02x}", bytes[i]);
  }
  return damaged(fmt::format("{} is neither a PNG nor a JPEG; it starts with{}", name,
                             first.empty() ? " nothing" : first));
}

Result<DecodedImage> decode_image(std::span<const uint8_t> bytes, int64_t channels,
                                  const std::string& name) {
  TRIREME_TRY(format, image_format(bytes, name));
  return format == ImageFormat::Png ? decode_png(bytes, channels, name)
                                    : decode_jpeg(bytes, channels, name);
}

}  // namespace trireme
