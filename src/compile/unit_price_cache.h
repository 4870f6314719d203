#pragma once

#include <map>

#include "compile/price.h"

namespace trireme {

// The prices of the units of one model on one hardware, for every shape that was asked for. Plans
// that differ only in their schedule or in ZeRO have the same shape.
class UnitPriceCache {
 public:
  // `hardware` must outlive the cache.
  explicit UnitPriceCache(const Hardware& hardware) : hardware_(hardware) {}

  const UnitPrices& of(const RunPlan& plan) {
    const auto [known, is_new] = prices_.try_emplace(plan.shape);
    if (is_new) known->second = price_units(plan, hardware_);
    return known->second;
  }

 private:
  const Hardware& hardware_;
  std::map<StageShape, UnitPrices> prices_;
};

}  // namespace trireme
