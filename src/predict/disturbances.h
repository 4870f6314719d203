#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "schema/hardware.h"

namespace trireme {

// A rank whose kernels all take `factor` times as long.
struct SlowedRank {
  int position = 0;  // in the mesh
  double factor = 1.0;
};

// A tier of the cluster whose links carry only this share of their bytes per second.
struct SlowLink {
  std::string tier;
  double share = 1.0;
  friend bool operator==(const SlowLink&, const SlowLink&) = default;
};

// Every action of every rank takes a random multiple of its compute time: exp(sigma z - sigma^2 /
// 2) with z from a normal distribution, so its mean is 1. It is keyed by rank and action.
struct Jitter {
  double sigma = 0.0;
  uint64_t seed = 0;
};

// What may go wrong in a step: slow ranks, slow links, and times that vary.
struct Disturbances {
  std::vector<SlowedRank> ranks;
  std::vector<SlowLink> links;
  Jitter jitter;

  bool empty() const { return ranks.empty() && links.empty() && jitter.sigma == 0.0; }
};

// Refuses a rank that is not one of `num_ranks` or is named twice, a factor below 1, a tier that
// the hardware does not have or that is named twice, a share that is not in (0, 1], and a sigma
// that is not in [0, 1]. Usage errors name the option of `trireme plan` and its remedy.
Status check_disturbances(const Disturbances& disturbances, int num_ranks,
                          const Hardware& hardware);

// Returns the hardware with slower links. A tier that it does not have is a mistake of the caller.
Hardware with_slow_links(Hardware hardware, const std::vector<SlowLink>& links);

// Fills in the factors of a rank's actions, [action]. A factor depends on the rank and the index of
// the action alone, and is exactly 1 if sigma is 0.
void fill_jitter(const Jitter& jitter, int position, std::span<double> factors);

}  // namespace trireme
