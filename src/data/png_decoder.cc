#include <fmt/format.h>
#include <png.h>

#include <csetjmp>
#include <cstring>

#include "data/image_decoder.h"

namespace trireme {
namespace {

// The calls of libpng share this. libpng leaves them with longjmp after an error, so no object with
// a destructor may be created between setjmp and the calls.
struct PngReader {
  std::span<const uint8_t> unread;
  char why[256] = "";
  png_structp png = nullptr;
  png_infop info = nullptr;
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void stop(png_structp png, png_const_charp why) {
  auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
  std::strncpy(reader->why, why, sizeof reader->why - 1);
  png_longjmp(png, 1);
}
void ignore(png_structp, png_const_charp) {}
void take(png_structp png, png_bytep out, size_t count) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (count > reader->unread.size()) png_error(png, "the file ends early");
  std::memcpy(out, reader->unread.data(), count);
  reader->unread = reader->unread.subspan(count);
}

// Reads the header and asks for 8 bits per channel, without transparency. Returns false after an
// error.
bool read_header(PngReader& reader, bool grey) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_set_user_limits(reader.png, 1 << 20, 1 << 20);
  png_set_crc_action(reader.png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
  png_read_info(reader.png, reader.info);
  png_set_expand(reader.png);
  png_set_strip_16(reader.png);
  png_set_strip_alpha(reader.png);
  const auto type = png_get_color_type(reader.png, reader.info);
  const bool is_grey = type == PNG_COLOR_TYPE_GRAY || type == PNG_COLOR_TYPE_GRAY_ALPHA;
  if (grey && !is_grey) {
    png_set_rgb_to_gray_fixed(reader.png, PNG_ERROR_ACTION_NONE, PNG_RGB_TO_GRAY_DEFAULT,
                              PNG_RGB_TO_GRAY_DEFAULT);
  }
  if (!grey && is_grey) png_set_gray_to_rgb(reader.png);
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  return true;
}

// Reads all rows to the given addresses, and the rest of the file.
bool read_rows(PngReader& reader, png_bytepp rows) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_read_image(reader.png, rows);
  png_read_end(reader.png, nullptr);
  return true;
}

}  // namespace

Result<DecodedImage> decode_png(std::span<const uint8_t> bytes, int64_t channels,
                                const std::string& name) {
  PngReader reader{bytes};
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, stop, ignore);
  if (reader.png != nullptr) reader.info = png_create_info_struct(reader.png);
  if (reader.info == nullptr) return Error{ErrorKind::Runtime, "libpng has no memory"};
  png_set_read_fn(reader.png, &reader, take);
  const auto failed = [&] { return damaged(fmt::format("{}: damaged PNG: {}", name, reader.why)); };
  if (!read_header(reader, channels == 1)) return failed();
  DecodedImage image{.extents = {int64_t(png_get_image_height(reader.png, reader.info)),
                                 int64_t(png_get_image_width(reader.png, reader.info)), channels},
                     .pixels = {}};
  TRIREME_TRY_DONE(check_image_extents(image.extents, int64_t(bytes.size()), name));
  const int64_t row_bytes = int64_t(png_get_rowbytes(reader.png, reader.info));
  if (row_bytes != image.extents.width * channels) {
    return damaged(fmt::format("{}: damaged PNG: a row has {} bytes, which should be {}", name,
                               row_bytes, image.extents.width * channels));
  }
  image.pixels.resize(size_t(image.extents.bytes()));
  std::vector<png_bytep> rows;
  for (int64_t row = 0; row < image.extents.height; ++row) {
    rows.push_back(image.pixels.data() + row * row_bytes);
  }
  if (!read_rows(reader, rows.data())) return failed();
  return image;
}

}  // namespace trireme
