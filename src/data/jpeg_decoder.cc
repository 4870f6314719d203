#include <fmt/format.h>

// clang-format off
#include <cstdio>  // jpeglib.h needs it
#include <jpeglib.h>
// clang-format on

#include <csetjmp>

#include "data/image_decoder.h"

namespace trireme {
namespace {

// The state of libjpeg, which leaves its calls with longjmp after an error. So no object with a
// destructor may be created between setjmp and the calls.
struct JpegReader {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  std::jmp_buf back{};
  char why[JMSG_LENGTH_MAX] = "";
  ~JpegReader() { jpeg_destroy_decompress(&jpeg); }
};

[[noreturn]] void stop(j_common_ptr jpeg) {
  auto* reader = static_cast<JpegReader*>(jpeg->client_data);
  jpeg->err->format_message(jpeg, reader->why);
  std::longjmp(reader->back, 1);
}
// libjpeg fills damaged parts with grey and continues; here a warning is an error. Messages of
// level 0 and above are traces.
void warn(j_common_ptr jpeg, int level) {
  if (level < 0) stop(jpeg);
}

bool start(JpegReader& reader, std::span<const uint8_t> bytes, bool grey) {
  if (setjmp(reader.back) != 0) return false;
  jpeg_create_decompress(&reader.jpeg);
  jpeg_mem_src(&reader.jpeg, bytes.data(), bytes.size());
  jpeg_read_header(&reader.jpeg, TRUE);
  reader.jpeg.out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
  reader.jpeg.dct_method = JDCT_ISLOW;  // the method with exact rules: the same pixels everywhere
  return true;
}

bool read_rows(JpegReader& reader, uint8_t* pixels, int64_t row_bytes) {
  if (setjmp(reader.back) != 0) return false;
  jpeg_start_decompress(&reader.jpeg);
  while (reader.jpeg.output_scanline < reader.jpeg.output_height) {
    JSAMPROW row = pixels + int64_t{reader.jpeg.output_scanline} * row_bytes;
    jpeg_read_scanlines(&reader.jpeg, &row, 1);
  }
  jpeg_finish_decompress(&reader.jpeg);
  return true;
}

}  // namespace

Result<DecodedImage> decode_jpeg(std::span<const uint8_t> bytes, int64_t channels,
                                 const std::string& name) {
  JpegReader reader;
  reader.jpeg.err = jpeg_std_error(&reader.errors);
  reader.jpeg.client_data = &reader;
  reader.errors.error_exit = stop;
  reader.errors.emit_message = warn;
  const auto failed = [&] {
    return damaged(fmt::format("{}: damaged JPEG: {}", name, reader.why));
  };
  if (!start(reader, bytes, channels == 1)) return failed();
  DecodedImage image{
      .extents = {int64_t{reader.jpeg.image_height}, int64_t{reader.jpeg.image_width}, channels},
      .pixels = {}};
  TRIREME_TRY_DONE(check_image_extents(image.extents, int64_t(bytes.size()), name));
  image.pixels.resize(size_t(image.extents.bytes()));
  if (!read_rows(reader, image.pixels.data(), image.extents.width * channels)) return failed();
  return image;
}

}  // namespace trireme
