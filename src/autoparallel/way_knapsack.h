#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "autoparallel/stage_plan.h"

namespace trireme {

// What a way of a unit costs while a fixed number of micro-batches is in flight.
struct WayCost {
  double seconds = 0.0;
  double bytes = 0.0;          // state and activations
  double scratch_bytes = 0.0;  // needed only while the unit runs
  int way = 0;
};

// The ways of the units of one kind.
struct KindCosts {
  std::vector<WayCost> costs;  // the fastest first
  // For every price of a byte, one of these has the least seconds and price. The fastest comes
  // first, the one with the fewest bytes last.
  std::vector<WayCost> hull;
};
// Returns the costs of the ways that no other way beats or equals in seconds, bytes and scratch.
KindCosts kind_costs(const std::vector<UnitWay>& ways, int in_flight);
// Returns the ways with at most so much scratch that no other of them beats in seconds and bytes.
// Every other one is at most the share `tolerance` of the fastest way's seconds faster than one
// that is left and has no more bytes.
KindCosts within_scratch(const KindCosts& kind, double scratch_bytes, double tolerance);
// Returns the lower convex hull in seconds and bytes. `costs` is sorted by seconds, then by bytes.
std::vector<WayCost> hull_of(const std::vector<WayCost>& costs);

// Chooses one way of every kind, so that the sum of their seconds is least and the sum of their
// bytes is at most `limit_bytes`. Scratch does not count here.
//
// A price in seconds of a byte (a Lagrange multiplier) turns the limit into a lower bound of the
// seconds. The knapsack takes one kind after the other and keeps the partial sums that no other one
// beats in seconds and bytes, and whose lower bound is good enough. With a tolerance, it keeps one
// of the sums whose seconds are nearly equal, the one with the fewest bytes. So the number of sums
// is bounded, and the answer takes at most 1 + tolerance times as long as the best one.
class WayKnapsack {
 public:
  struct Item {
    double count = 1.0;  // of units of the kind
    const KindCosts* kind = nullptr;
    size_t place = 0;  // of the item's pick; the knapsack sets it
  };
  using Picks = std::vector<const WayCost*>;  // [item]

  // Every kind has a way; the kinds must outlive the knapsack.
  WayKnapsack(std::vector<Item> items, double limit_bytes, double tolerance);

  // No choice takes less; kImpossible: none fits.
  double lower_bound_s() const { return lower_bound_s_; }
  // Returns a choice that fits, near the best one. Needs a finite lower bound.
  Picks good_picks() const;
  // Returns the best choice of those that take less than `best_s`; empty: there is none. It may
  // drop choices that take `dropped_from_s` or more, which is at most about `best_s`.
  Picks faster_than(double best_s, double dropped_from_s);
  // Partial sums that faster_than has compared.
  int64_t num_sums() const { return num_sums_; }

 private:
  // Prices of a byte, as factors of the one for which the lower bound of all items is highest. The
  // others are better for the rest where the first picks are large or small.
  static constexpr std::array<double, 5> kPrices = {1.0, 0.5, 0.75, 1.5, 2.5};
  struct Sum {
    double seconds = 0.0, bytes = 0.0;
    size_t before = 0;  // the sum without the last item
    const WayCost* pick = nullptr;
  };
  // Bounds for the items from one on to the last.
  struct Rest {
    double least_s = 0.0, least_bytes = 0.0;
    std::array<double, kPrices.size()> least_priced_s =
        {};  // [price] seconds and the price of the bytes
  };

  Picks cheapest_at(double price_s) const;
  Sum sum_of(const Picks& picks) const;
  void find_price();
  void price_bytes(size_t p, double price_s);
  double lower_bound_with(const Sum& sum, size_t item) const;
  Picks in_places(const Picks& picks) const;
  bool swap_one(Picks& picks) const;
  std::vector<Sum> extended(const std::vector<Sum>& sums, size_t item, double dropped_from_s);

  std::vector<Item> items_;
  double limit_bytes_;
  double tolerance_;
  std::vector<Rest> rests_;  // [item]; the last one is empty
  std::array<double, kPrices.size()> prices_s_ = {};
  double lower_bound_s_ = kImpossible;
  Picks fitting_;  // in the order of items_
  int64_t num_sums_ = 0;
};

}  // namespace trireme
