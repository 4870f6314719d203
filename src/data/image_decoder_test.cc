#include "data/image_decoder.h"

#include <gtest/gtest.h>

#include "base/philox.h"
#include "data/encoded_images.h"
#include "data/image_scaling.h"

namespace trireme {
namespace {

std::vector<uint8_t> noise(const ImageExtents& extents) {
  std::vector<uint8_t> pixels;
  for (int64_t i = 0; i < extents.bytes(); ++i) {
    pixels.push_back(uint8_t(philox({7}, counter_of(0, uint64_t(i)))[0]));
  }
  return pixels;
}

Result<DecodedImage> decoded(const std::string& bytes, int64_t channels) {
  return decode_image({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, channels,
                      "cat.png");
}

// Returns the pixels with three channels, which are equal in a grey image, and without opacity.
std::vector<uint8_t> in_colour(const ImageExtents& extents, const std::vector<uint8_t>& pixels) {
  std::vector<uint8_t> out;
  for (int64_t p = 0; p < extents.pixels(); ++p) {
    for (int64_t c = 0; c < 3; ++c) {
      out.push_back(pixels[size_t(p * extents.channels + (extents.channels < 3 ? 0 : c))]);
    }
  }
  return out;
}

TEST(ImageDecoder, PngsOfEveryKindGiveTheirPixelsBack) {
  for (int64_t channels = 1; channels <= 4; ++channels) {
    for (int bits : {8, 16}) {
      for (bool interlaced : {false, true}) {
        const ImageExtents extents{11, 6, channels};
        const auto pixels = noise(extents);
        const auto image = decoded(encoded_png(extents, pixels, bits, interlaced), 3);
        ASSERT_TRUE(image.ok()) << image.error().message;
        EXPECT_EQ(image->extents, (ImageExtents{11, 6, 3}));
        EXPECT_EQ(image->pixels, in_colour(extents, pixels)) << channels << " of " << bits;
      }
    }
  }
}

TEST(ImageDecoder, GreyOfGreyIsExactAndGreyOfColourIsBetweenItsChannels) {
  const ImageExtents grey{5, 9, 1};
  EXPECT_EQ(decoded(encoded_png(grey, noise(grey)), 1)->pixels, noise(grey));
  const ImageExtents colour{5, 9, 3};
  const auto pixels = noise(colour);
  const auto image = decoded(encoded_png(colour, pixels), 1);
  for (size_t p = 0; p < 45; ++p) {
    const auto [low, high] = std::minmax({pixels[3 * p], pixels[3 * p + 1], pixels[3 * p + 2]});
    EXPECT_GE(image->pixels[p] + 1, low);
    EXPECT_LE(image->pixels[p], high + 1);
  }
}

TEST(ImageDecoder, AJpegIsNearItsImage) {
  for (int64_t channels : {1, 3}) {
    const ImageExtents extents{17, 24, channels};
    std::vector<uint8_t> pixels;
    for (int64_t i = 0; i < extents.bytes(); ++i) {
      pixels.push_back(uint8_t(40 + 4 * (i / channels % 24) + 3 * (i / channels / 24)));
    }
    const auto image = decoded(encoded_jpeg(extents, pixels, 98), channels);
    ASSERT_TRUE(image.ok()) << image.error().message;
    EXPECT_EQ(image->extents, extents);
    for (size_t i = 0; i < pixels.size(); ++i) {
      EXPECT_NEAR(image->pixels[i], pixels[i], 8);
    }
  }
}

// PNGs carry checksums, so all damage is noticed.
TEST(ImageDecoder, EveryFlippedBitOfAPngIsNamed) {
  const ImageExtents extents{4, 5, 3};
  const std::string good = encoded_png(extents, noise(extents));
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = char(bad[bit / 8] ^ (1 << bit % 8));
    const auto image = decoded(bad, 3);
    ASSERT_FALSE(image.ok()) << "bit " << bit;
    EXPECT_TRUE(image.error().message.starts_with("cat.png")) << image.error().message;
  }
}

TEST(ImageDecoder, EveryFileThatEndsEarlyIsNamed) {
  const ImageExtents extents{16, 16, 3};
  for (const std::string& good :
       {encoded_png(extents, noise(extents)), encoded_jpeg(extents, noise(extents))}) {
    for (size_t length = 0; length < good.size(); ++length) {
      const auto image = decoded(good.substr(0, length), 3);
      // A JPEG whose last marker is cut off has all of its pixels, and its decoder says so.
      ASSERT_FALSE(image.ok()) << length << " of " << good.size();
      EXPECT_TRUE(image.error().message.starts_with("cat.png")) << image.error().message;
    }
  }
  EXPECT_EQ(decoded("GIF89a..", 3).error().message,
            "cat.png is neither a PNG nor a JPEG; it starts with 47 49 46 38 39 61 2e 2e");
}

TEST(ImageScaling, KeepsAnImageOfTheSizeAndCutsItsMiddleOut) {
  const ImageExtents extents{6, 6, 3};
  const auto pixels = noise(extents);
  std::vector<uint8_t> same(pixels.size());
  scale_and_cut(extents, pixels, extents, same);
  EXPECT_EQ(same, pixels);
  const ImageExtents middle{6, 2, 3};
  std::vector<uint8_t> cut(size_t(middle.bytes()));
  scale_and_cut(extents, pixels, middle, cut);
  for (int64_t i = 0; i < middle.bytes(); ++i) {
    EXPECT_EQ(cut[size_t(i)], pixels[size_t((i / 6 * 6 + 2) * 3 + i % 6)]);
  }
}

TEST(ImageScaling, KeepsAFlatImageFlatAndABrightnessWithinItsRange) {
  const ImageExtents extents{13, 29, 1}, wanted{5, 8, 1}, larger{40, 41, 1};
  for (const ImageExtents& to : {wanted, larger}) {
    std::vector<uint8_t> out(size_t(to.bytes()));
    scale_and_cut(extents, std::vector<uint8_t>(size_t(extents.bytes()), 93), to, out);
    EXPECT_EQ(out, std::vector<uint8_t>(out.size(), 93));
    std::vector<uint8_t> two = noise(extents);
    for (uint8_t& byte : two) byte = uint8_t(100 + byte % 20);
    scale_and_cut(extents, two, to, out);
    for (uint8_t byte : out) EXPECT_TRUE(byte >= 100 && byte < 120);
  }
}

}  // namespace
}  // namespace trireme
