#include "data/image_scaling.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace trireme {
namespace {

// The weights of the input pixels along one dim for one pixel of the result: a triangle as wide as
// that pixel, or as one input pixel if that is wider. They are positive and add up to `sum`.
struct Triangle {
  Triangle(double centre, double reach, int64_t extent)
      : centre(centre),
        reach(reach),
        first(std::clamp<int64_t>(int64_t(std::floor(centre - reach)) + 1, 0, extent - 1)),
        end(std::clamp<int64_t>(int64_t(std::ceil(centre + reach)), first + 1, extent)) {
    for (int64_t i = first; i < end; ++i) sum += weight(i);
  }
  double weight(int64_t i) const {
    return std::max(1e-9, 1.0 - std::abs(double(i) - centre) / reach);
  }
  double centre, reach;
  int64_t first, end;
  double sum = 0.0;
};

}  // namespace

void scale_and_cut(const ImageExtents& extents, std::span<const uint8_t> pixels,
                   const ImageExtents& wanted, std::span<uint8_t> out) {
  TRIREME_CHECK(extents.channels == wanted.channels, "scaling keeps the channels");
  TRIREME_CHECK(int64_t(pixels.size()) == extents.bytes() && int64_t(out.size()) == wanted.bytes(),
                "images have the bytes of their extents");
  // The number of input pixels per pixel of the result is the same in both dims; what is left over
  // in one of them is cut on both sides.
  const double step = std::min(double(extents.height) / double(wanted.height),
                               double(extents.width) / double(wanted.width));
  const double top = (double(extents.height) - step * double(wanted.height)) / 2;
  const double left = (double(extents.width) - step * double(wanted.width)) / 2;
  const double reach = std::max(1.0, step);
  for (int64_t y = 0; y < wanted.height; ++y) {
    const Triangle down(top + (double(y) + 0.5) * step - 0.5, reach, extents.height);
    for (int64_t x = 0; x < wanted.width; ++x) {
      const Triangle across(left + (double(x) + 0.5) * step - 0.5, reach, extents.width);
      for (int64_t c = 0; c < wanted.channels; ++c) {
        double sum = 0.0;
        for (int64_t i = down.first; i < down.end; ++i) {
          double line = 0.0;
          for (int64_t j = across.first; j < across.end; ++j) {
            line += across.weight(j) *
                    double(pixels[size_t((i * extents.width + j) * extents.channels + c)]);
          }
          sum += down.weight(i) * line;
        }
        const double value = sum / (down.sum * across.sum);
        out[size_t((y * wanted.width + x) * wanted.channels + c)] =
            uint8_t(std::clamp(std::floor(value + 0.5), 0.0, 255.0));
      }
    }
  }
}

}  // namespace trireme
