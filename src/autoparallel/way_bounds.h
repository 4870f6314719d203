#pragma once

#include <vector>

#include "autoparallel/seconds_bounds.h"
#include "autoparallel/way_knapsack.h"

namespace trireme {

// Bounds of the least seconds of any stage on one mesh, with a fixed number of micro-batches in
// flight. They cost about as many steps as all kinds have ways on their hulls.
//
// The lower bound is the linear relaxation of the knapsack: every kind starts with its fastest way,
// and saves bytes where a byte costs the fewest seconds, until the rest fits. The last saving
// counts in part only. As a whole it leads to a choice that fits, unless this one needs too much
// scratch.
class WayBounds {
 public:
  // kinds[k]: the ways of the units of kind k
  explicit WayBounds(std::vector<KindCosts> kinds);
  WayBounds(WayBounds&&) = default;

  const std::vector<KindCosts>& kinds() const { return kinds_; }
  SecondsBounds of(const std::vector<PlacedUnits>& units, double limit_bytes) const;

 private:
  // From one way on the hull of a kind to the next.
  struct Saving {
    double price_s = 0.0;  // of a byte
    double seconds = 0.0, bytes = 0.0;
    int kind = 0;
    const WayCost* to = nullptr;
  };

  std::vector<KindCosts> kinds_;
  std::vector<double> least_scratch_;  // [kind]
  std::vector<Saving> savings_;        // the cheapest first
};

}  // namespace trireme
