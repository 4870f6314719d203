#pragma once

#include <map>

#include "compile/unit_price.h"

namespace trireme {

// The prices of the units of one model on one hardware, for every shape that was asked for. Plans
// that differ only in their schedule or in ZeRO have the same shape.
class UnitPriceCache {
 public:
  // `hardware` must outlive the cache.
  explicit UnitPriceCache(const Hardware& hardware) : hardware_(hardware) {}

  const UnitPrices& of(const RunPlan& plan) { return of(plan, prices_, OfDevices::Fastest); }
  // On the device of a mixed cluster that is slowest at each part.
  const UnitPrices& slowest_of(const RunPlan& plan) {
    return hardware_.is_mixed() ? of(plan, slowest_, OfDevices::Slowest) : of(plan);
  }

 private:
  using Prices = std::map<StageShape, UnitPrices>;

  const UnitPrices& of(const RunPlan& plan, Prices& prices, OfDevices which) {
    const auto [known, is_new] = prices.try_emplace(plan.shape);
    if (is_new) known->second = price_units(plan, hardware_, which);
    return known->second;
  }

  const Hardware& hardware_;
  Prices prices_, slowest_;
};

}  // namespace trireme
