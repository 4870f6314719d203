#pragma once

#include "schema/image_window.h"

namespace trireme {

struct PoolShape {
  ImageWindow window;
  int64_t channels;
};

// Windows that overlap, that leave pixels out, that reach into the padding, of the whole image, and
// images with several bands of rows and parts of channels. The last ones are the first, an inner
// and the last band of images whose rows several ranks share out.
inline constexpr PoolShape kPoolShapes[] = {
    {{1, 1, 1, 1, 1, 0}, 1},       {{2, 4, 4, 2, 2, 0}, 16},       {{1, 5, 7, 2, 2, 0}, 3},
    {{2, 6, 5, 3, 2, 1}, 33},      {{1, 7, 7, 3, 2, 0}, 20},       {{3, 4, 4, 4, 1, 0}, 7},
    {{1, 5, 5, 3, 1, 1}, 17},      {{2, 6, 6, 2, 3, 1}, 5},        {{1, 70, 64, 3, 2, 1}, 1},
    {{1, 3, 4, 3, 1, 1}, 257},     {{2, 4, 5, 3, 2, 1, 2, 1}, 17}, {{1, 5, 6, 3, 2, 1, 2, 0}, 5},
    {{2, 4, 4, 3, 2, 1, 2, 0}, 3},
};
// ResNet-50: behind the first convolution, and the global average.
inline constexpr PoolShape kPoolBenchShapes[] = {{{4, 112, 112, 3, 2, 1}, 64},
                                                 {{4, 7, 7, 7, 1, 0}, 2048}};

}  // namespace trireme
