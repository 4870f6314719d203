#pragma once

#include <span>

#include "durability/placed_blocks.h"

namespace trireme {

// The mean time until a block is lost that begins with all its chunks and loses and regains them
// one by one. losses_per_s[j] is the rate from j lost chunks to j + 1, and the last one loses the
// block. repairs_per_s[j] is the rate from j to j - 1; that of 0 is not read. Times between are
// exponential (a Markov chain of births and deaths).
double mean_time_to_loss_s(std::span<const double> losses_per_s,
                           std::span<const double> repairs_per_s);

// What a year costs in the mean.
struct LossRate {
  double events_per_year = 0.0;  // moments at which at least one block is lost
  double blocks_per_year = 0.0;

  // The probability that a year has such a moment, if they come at random.
  double in_a_year() const;
};

// The closed form: the chain of one block, times the blocks. If the same units hold chunks of
// several blocks, these are lost in one moment. The time in which a block may lose its next chunk
// is taken as its mean.
LossRate chain_losses(const PlacedBlocks& placed);

}  // namespace trireme
