#pragma once

#include <span>

#include "data/image_set.h"

namespace trireme {

// Scales an image so that it just covers `wanted`, and cuts out the middle. A pixel of the result
// is interpolated between the four input pixels around its centre. If the image becomes smaller,
// each of these four is a mean of the pixels that it stands for. The order of sums is fixed, so the
// bytes are the same everywhere.
void scale_and_cut(const ImageExtents& extents, std::span<const uint8_t> pixels,
                   const ImageExtents& wanted, std::span<uint8_t> out);

}  // namespace trireme
