#include "autoparallel/way_bounds.h"

#include <algorithm>

namespace trireme {
namespace {

// The bound is added up in another order than the sums that it is compared with.
constexpr double kRoundingOfBound = 1.0 - 1e-11;

}  // namespace

WayBounds::WayBounds(std::vector<KindCosts> kinds) : kinds_(std::move(kinds)) {
  for (size_t kind = 0; kind < kinds_.size(); ++kind) {
    double least = kImpossible;
    for (const WayCost& cost : kinds_[kind].costs) least = std::min(least, cost.scratch_bytes);
    least_scratch_.push_back(least);
    const std::vector<WayCost>& hull = kinds_[kind].hull;
    for (size_t i = 1; i < hull.size(); ++i) {
      const double seconds = hull[i].seconds - hull[i - 1].seconds;
      const double bytes = hull[i - 1].bytes - hull[i].bytes;
      savings_.push_back({seconds / bytes, seconds, bytes, int(kind), &hull[i]});
    }
  }
  std::stable_sort(savings_.begin(), savings_.end(),
                   [](const Saving& a, const Saving& b) { return a.price_s < b.price_s; });
}

SecondsBounds WayBounds::of(const std::vector<PlacedUnits>& units, double limit_bytes) const {
  struct Held {
    double count = 0.0;
    const WayCost* way = nullptr;
  };
  std::vector<Held> held(kinds_.size());
  double seconds = 0.0, bytes = 0.0, scratch = 0.0;
  for (const PlacedUnits& unit : units) {
    const size_t kind = size_t(unit.kind);
    if (kinds_[kind].costs.empty()) return {kImpossible, kImpossible};
    const WayCost& fastest = kinds_[kind].hull.front();
    held[kind] = {double(unit.count), &fastest};
    seconds += unit.count * fastest.seconds;
    bytes += unit.count * fastest.bytes;
    scratch = std::max(scratch, least_scratch_[kind]);
  }
  double lower_s = seconds;
  const double room = limit_bytes - scratch;
  for (size_t i = 0; bytes > room && i < savings_.size(); ++i) {
    const Saving& saving = savings_[i];
    Held& at = held[size_t(saving.kind)];
    if (at.count == 0.0) continue;
    const double needed = std::min(bytes - room, at.count * saving.bytes);
    lower_s = (seconds + needed * saving.price_s) * kRoundingOfBound;
    seconds += at.count * saving.seconds;
    bytes -= at.count * saving.bytes;
    at.way = saving.to;
  }
  // The bytes that are still above the room may be an error of rounding.
  if (bytes > room && bytes * kRoundingOfBound > room) return {kImpossible, kImpossible};
  for (const Held& at : held) {
    if (at.count > 0.0) scratch = std::max(scratch, at.way->scratch_bytes);
  }
  return {lower_s, bytes + scratch <= limit_bytes ? seconds : kImpossible};
}

}  // namespace trireme
