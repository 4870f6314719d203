#pragma once

#include "schema/image_window.h"
#include "schema/placement.h"

namespace trireme {

// Returns the window over the halo of one of several ranks that share out the rows of images, where
// `whole` is the window over the whole images.
inline ImageWindow band_of_rank(const ImageWindow& whole, int num_ranks, int rank) {
  const IndexRange read = local_range(whole.height, Placement::halo(whole.rows()), num_ranks, rank);
  const IndexRange made = local_range(whole.out_height(), Placement::shard(1), num_ranks, rank);
  ImageWindow band = whole;
  band.height = read.count();
  band.band_rows = made.count();
  band.band_padding = read.begin - (made.begin * whole.stride - whole.padding);
  return band;
}

}  // namespace trireme
