#pragma once

#include <cstdint>

#include "durability/loss_chain.h"

namespace trireme {

// Losses by Monte Carlo, with half the width of their 95 % confidence intervals.
struct DrawnLosses {
  LossRate rate;
  double events_half_width = 0.0;
  double blocks_half_width = 0.0;
  int64_t samples = 0;
};

// Draws what follows the loss of a unit: which unit, which of its blocks lose another chunk and
// when, while the cluster detects and rebuilds. A sequence of losses is so rare that none would be
// seen, so each next loss is drawn as if it came, and the sample is weighted by how often it does
// (importance sampling). The result is unbiased, and depends on the seed alone. Losses that come
// before an earlier sequence has ended are counted as if they were alone, which holds as long as
// they are rare.
DrawnLosses draw_losses(const PlacedBlocks& placed, uint64_t seed, int64_t samples);

}  // namespace trireme
