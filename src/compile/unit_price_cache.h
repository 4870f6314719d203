#pragma once

#include <map>
#include <set>
#include <utility>

#include "compile/unit_price.h"

namespace trireme {

// The prices of the units of one model on one hardware, for every shape that was asked for. Plans
// that differ only in their schedule or in ZeRO have the same shape.
class UnitPriceCache {
 public:
  // `hardware` must outlive the cache.
  explicit UnitPriceCache(const Hardware& hardware) : hardware_(hardware) {}

  const PlanPrices& of(const RunPlan& plan) { return of(plan, prices_, OfDevices::Fastest); }
  // On the device of a mixed cluster that is slowest at each part.
  const PlanPrices& slowest_of(const RunPlan& plan) {
    return hardware_.is_mixed() ? of(plan, slowest_, OfDevices::Slowest) : of(plan);
  }

 private:
  using Prices = std::map<std::pair<StageShape, std::set<int>>, PlanPrices>;  // (shape, tp degrees)

  const PlanPrices& of(const RunPlan& plan, Prices& prices, OfDevices which) {
    std::set<int> degrees;
    for (int place = 0; place < plan.mesh.pp; ++place) degrees.insert(plan.mesh.tp_at(place));
    const auto [known, is_new] = prices.try_emplace({plan.shape, std::move(degrees)});
    if (is_new) known->second = price_places(plan, hardware_, which);
    return known->second;
  }

  const Hardware& hardware_;
  Prices prices_, slowest_;
};

}  // namespace trireme
