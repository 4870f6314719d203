#pragma once

// PNG and JPEG files and tables of other formats, for tests and seeds of fuzzers.

// clang-format off
#include <cstdio>  // jpeglib.h needs it
#include <jpeglib.h>
// clang-format on
#include <png.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "data/image_set.h"

namespace trireme {

// Returns a PNG of the pixels with 1 to 4 channels (2 and 4: the last one is opacity) of 8 or 16
// bits. The lower 8 of 16 bits are 0x5a.
inline std::string encoded_png(const ImageExtents& extents, const std::vector<uint8_t>& pixels,
                               int bits = 8, bool interlaced = false) {
  std::string out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &out,
      [](png_structp p, png_bytep bytes, size_t count) {
        static_cast<std::string*>(png_get_io_ptr(p))
            ->append(reinterpret_cast<const char*>(bytes), count);
      },
      nullptr);
  constexpr int kTypes[] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                            PNG_COLOR_TYPE_RGB_ALPHA};
  png_set_IHDR(png, info, png_uint_32(extents.width), png_uint_32(extents.height), bits,
               kTypes[extents.channels], interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  std::vector<uint8_t> wide;
  for (uint8_t byte : pixels) {
    wide.push_back(byte);
    if (bits == 16) wide.push_back(0x5a);
  }
  std::vector<png_bytep> rows;
  for (int64_t row = 0; row < extents.height; ++row) {
    rows.push_back(wide.data() + row * extents.width * extents.channels * (bits / 8));
  }
  png_write_info(png, info);
  png_write_image(png, rows.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return out;
}

// Returns a JPEG of an image with 1 or 3 channels.
inline std::string encoded_jpeg(const ImageExtents& extents, const std::vector<uint8_t>& pixels,
                                int quality = 95) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long count = 0;
  jpeg_mem_dest(&jpeg, &bytes, &count);
  jpeg.image_width = JDIMENSION(extents.width);
  jpeg.image_height = JDIMENSION(extents.height);
  jpeg.input_components = int(extents.channels);
  jpeg.in_color_space = extents.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, quality, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < jpeg.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(pixels.data() + int64_t{jpeg.next_scanline} *
                                                            extents.width * extents.channels);
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string out(reinterpret_cast<char*>(bytes), count);
  jpeg_destroy_compress(&jpeg);
  std::free(bytes);
  return out;
}

// Returns the header of an idx file of bytes.
inline std::string idx_header(const std::vector<uint32_t>& extents) {
  std::string out{0, 0, 8, char(extents.size())};
  for (uint32_t extent : extents) {
    for (int shift : {24, 16, 8, 0}) out.push_back(char(extent >> shift));
  }
  return out;
}

}  // namespace trireme
