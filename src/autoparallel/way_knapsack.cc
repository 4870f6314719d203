#include "autoparallel/way_knapsack.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace trireme {
namespace {

// Bounds are added up in another order than the sums that they are compared with.
constexpr double kRoundingOfSums = 1.0 + 1e-11;

// Removes every point that another one beats or equals in seconds and bytes. Sorts the others, the
// fastest first. Of the points in one interval of `cell_s` seconds, only the smallest one stays.
template <typename Point>
void keep_fast_or_small(std::vector<Point>& points, double cell_s) {
  std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
    return a.seconds != b.seconds ? a.seconds < b.seconds : a.bytes < b.bytes;
  });
  size_t kept = 0;
  double cell_begin_s = 0.0;
  for (const Point& point : points) {
    if (kept > 0 && point.bytes >= points[kept - 1].bytes) continue;
    const bool is_same_cell = kept > 0 && point.seconds < cell_begin_s + cell_s;
    if (!is_same_cell) cell_begin_s = point.seconds;
    points[is_same_cell ? kept - 1 : kept++] = point;
  }
  points.resize(kept);
}

// Returns the most seconds between two neighbours on the hull.
double widest_step_s(const WayKnapsack::Item& item) {
  double widest = 0.0;
  const std::vector<WayCost>& hull = item.kind->hull;
  for (size_t i = 1; i < hull.size(); ++i) {
    widest = std::max(widest, item.count * (hull[i].seconds - hull[i - 1].seconds));
  }
  return widest;
}

}  // namespace

std::vector<WayCost> hull_of(const std::vector<WayCost>& costs) {
  std::vector<WayCost> hull;
  for (const WayCost& cost : costs) {
    if (!hull.empty() && cost.bytes >= hull.back().bytes) continue;
    while (hull.size() > 1) {
      const WayCost &a = hull[hull.size() - 2], &b = hull.back();
      const double saved_by_b = (a.bytes - b.bytes) * (cost.seconds - a.seconds);
      const double saved_by_cost = (a.bytes - cost.bytes) * (b.seconds - a.seconds);
      if (saved_by_b > saved_by_cost) break;
      hull.pop_back();
    }
    hull.push_back(cost);
  }
  return hull;
}

KindCosts kind_costs(const std::vector<UnitWay>& ways, int in_flight) {
  const ChoiceLimit limit{.in_flight = double(in_flight)};
  std::vector<WayCost> costs;
  for (size_t way = 0; way < ways.size(); ++way) {
    const ChoiceCost& cost = ways[way].cost;
    costs.push_back({cost.seconds, limit.bytes_of(cost), ways[way].scratch_bytes, int(way)});
  }
  std::sort(costs.begin(), costs.end(), [](const WayCost& a, const WayCost& b) {
    return a.seconds != b.seconds ? a.seconds < b.seconds : a.bytes < b.bytes;
  });
  KindCosts kind;
  // The least scratch of the ways so far, by their bytes. Both are strictly monotone.
  std::map<double, double> least_scratch;
  for (const WayCost& cost : costs) {
    auto next = least_scratch.upper_bound(cost.bytes);
    const bool is_beaten =
        next != least_scratch.begin() && std::prev(next)->second <= cost.scratch_bytes;
    if (is_beaten) continue;
    while (next != least_scratch.end() && next->second >= cost.scratch_bytes) {
      next = least_scratch.erase(next);
    }
    least_scratch[cost.bytes] = cost.scratch_bytes;
    kind.costs.push_back(cost);
  }
  kind.hull = hull_of(kind.costs);
  return kind;
}

KindCosts within_scratch(const KindCosts& kind, double scratch_bytes, double tolerance) {
  KindCosts within;
  for (const WayCost& cost : kind.costs) {
    if (cost.scratch_bytes <= scratch_bytes) within.costs.push_back(cost);
  }
  const double least_s = within.costs.empty() ? 0.0 : within.costs.front().seconds;
  keep_fast_or_small(within.costs, tolerance * least_s);
  within.hull = hull_of(within.costs);
  return within;
}

WayKnapsack::WayKnapsack(std::vector<Item> items, double limit_bytes, double tolerance)
    : items_(std::move(items)),
      limit_bytes_(limit_bytes),
      tolerance_(tolerance),
      rests_(items_.size() + 1) {
  // The bounds of kinds with small steps are close to what these kinds can have, so such kinds are
  // added last.
  for (size_t i = 0; i < items_.size(); ++i) items_[i].place = i;
  std::stable_sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
    return widest_step_s(a) > widest_step_s(b);
  });
  for (size_t i = items_.size(); i-- > 0;) {
    const std::vector<WayCost>& hull = items_[i].kind->hull;
    rests_[i].least_s = rests_[i + 1].least_s + items_[i].count * hull.front().seconds;
    rests_[i].least_bytes = rests_[i + 1].least_bytes + items_[i].count * hull.back().bytes;
  }
  find_price();
}

WayKnapsack::Picks WayKnapsack::cheapest_at(double price_s) const {
  Picks picks;
  for (const Item& item : items_) {
    const auto priced = [&](const WayCost& cost) { return cost.seconds + price_s * cost.bytes; };
    picks.push_back(&*std::min_element(
        item.kind->hull.begin(), item.kind->hull.end(),
        [&](const WayCost& a, const WayCost& b) { return priced(a) < priced(b); }));
  }
  return picks;
}

WayKnapsack::Sum WayKnapsack::sum_of(const Picks& picks) const {
  Sum sum;
  for (size_t i = 0; i < picks.size(); ++i) {
    sum.seconds += items_[i].count * picks[i]->seconds;
    sum.bytes += items_[i].count * picks[i]->bytes;
  }
  return sum;
}

// Finds the price of a byte for which the lower bound is highest. The bound is concave in the price
// and consists of straight pieces, one for every choice. Each step takes the price at which the
// best known choice above the limit costs as much as the best one below it, until no other choice
// costs less.
void WayKnapsack::find_price() {
  Picks fastest, smallest;
  for (const Item& item : items_) {
    fastest.push_back(&item.kind->hull.front());
    smallest.push_back(&item.kind->hull.back());
  }
  Sum above = sum_of(fastest), below = sum_of(smallest);
  if (below.bytes > limit_bytes_) return;
  double price_s = 0.0;
  const bool fastest_fit = above.bytes <= limit_bytes_;
  fitting_ = fastest_fit ? fastest : smallest;
  for (bool is_highest = fastest_fit; !is_highest;) {
    price_s = (below.seconds - above.seconds) / (above.bytes - below.bytes);
    const Picks picks = cheapest_at(price_s);
    const Sum middle = sum_of(picks);
    is_highest = middle.bytes >= above.bytes || middle.bytes <= below.bytes;
    if (!is_highest && middle.bytes <= limit_bytes_) fitting_ = picks;
    (middle.bytes > limit_bytes_ ? above : below) = middle;
  }
  for (size_t p = 0; p < kPrices.size(); ++p) price_bytes(p, kPrices[p] * price_s);
  lower_bound_s_ = lower_bound_with({}, 0) / kRoundingOfSums;
}

void WayKnapsack::price_bytes(size_t p, double price_s) {
  prices_s_[p] = price_s;
  const Picks picks = cheapest_at(price_s);
  for (size_t i = items_.size(); i-- > 0;) {
    const double priced_s = picks[i]->seconds + price_s * picks[i]->bytes;
    rests_[i].least_priced_s[p] = rests_[i + 1].least_priced_s[p] + items_[i].count * priced_s;
  }
}

// Returns a lower bound of the seconds of a sum with all items from `item` on.
double WayKnapsack::lower_bound_with(const Sum& sum, size_t item) const {
  const Rest& rest = rests_[item];
  double bound_s = sum.seconds + rest.least_s;
  for (size_t p = 0; p < kPrices.size(); ++p) {
    const double over_bytes = sum.bytes - limit_bytes_;
    bound_s = std::max(bound_s, sum.seconds + prices_s_[p] * over_bytes + rest.least_priced_s[p]);
  }
  return bound_s;
}

// Starts with the choice that the lower bound has found below the limit, and makes one pick after
// the other faster while all fit.
WayKnapsack::Picks WayKnapsack::good_picks() const {
  Picks picks = fitting_;
  while (swap_one(picks)) {
  }
  return in_places(picks);
}

WayKnapsack::Picks WayKnapsack::in_places(const Picks& picks) const {
  Picks placed(picks.size());
  for (size_t i = 0; i < picks.size(); ++i) placed[items_[i].place] = picks[i];
  return placed;
}

// Makes the change of one pick that saves the most seconds. Returns false if none saves any.
bool WayKnapsack::swap_one(Picks& picks) const {
  const double left = limit_bytes_ - sum_of(picks).bytes;
  double most_saved_s = 0.0;
  size_t changed = 0;
  const WayCost* best = nullptr;
  for (size_t i = 0; i < items_.size(); ++i) {
    const double count = items_[i].count;
    for (const WayCost& cost : items_[i].kind->costs) {  // the fastest first
      const double saved_s = count * (picks[i]->seconds - cost.seconds);
      if (saved_s <= most_saved_s) break;
      if (count * (cost.bytes - picks[i]->bytes) > left) continue;
      most_saved_s = saved_s;
      changed = i;
      best = &cost;
      break;
    }
  }
  if (best != nullptr) picks[changed] = best;
  return best != nullptr;
}

WayKnapsack::Picks WayKnapsack::faster_than(double best_s, double dropped_from_s) {
  std::vector<std::vector<Sum>> sums{{Sum{}}};
  const double limit_s = dropped_from_s * kRoundingOfSums;
  for (size_t i = 0; i < items_.size(); ++i) sums.push_back(extended(sums.back(), i, limit_s));
  if (sums.back().empty() || sums.back().front().seconds >= best_s) return {};
  Picks picks(items_.size());
  const Sum* at = &sums.back().front();
  for (size_t i = items_.size(); i-- > 0; at = &sums[i][at->before]) picks[i] = at->pick;
  return in_places(picks);
}

std::vector<WayKnapsack::Sum> WayKnapsack::extended(const std::vector<Sum>& sums, size_t item,
                                                    double dropped_from_s) {
  const Rest& rest = rests_[item + 1];
  const double count = items_[item].count;
  const double limit_bytes = limit_bytes_ * (rest.least_bytes > 0.0 ? kRoundingOfSums : 1.0);
  std::vector<Sum> longer;
  for (size_t before = 0; before < sums.size(); ++before) {
    for (const WayCost& cost : items_[item].kind->costs) {  // the fastest first
      const Sum sum{sums[before].seconds + count * cost.seconds,
                    sums[before].bytes + count * cost.bytes, before, &cost};
      ++num_sums_;
      if (sum.seconds + rest.least_s >= dropped_from_s) break;
      if (sum.bytes + rest.least_bytes > limit_bytes) continue;
      if (lower_bound_with(sum, item + 1) < dropped_from_s) longer.push_back(sum);
    }
  }
  keep_fast_or_small(longer, tolerance_ * lower_bound_s_ / double(items_.size()));
  return longer;
}

}  // namespace trireme
