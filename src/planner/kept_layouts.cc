#include "planner/kept_layouts.h"

#include <iterator>
#include <utility>

namespace trireme {

bool FastestLayouts::is_done(double least_s) const {
  return found_.size() == num_best_ && least_s > found_.rbegin()->second.priced.time.step;
}

bool FastestLayouts::is_beaten(double least_s, int64_t) const { return is_done(least_s); }

void FastestLayouts::keep(const PricedLayout& priced, int64_t index, const LayoutWay& way) {
  const Key key(priced.time.step, priced.arena_bytes, index);
  const auto [own, is_new] = key_of_.try_emplace(index, key);
  if (!is_new) {
    const Found& known = found_.at(own->second);
    if (std::pair(known.priced.time.step, known.way) <= std::pair(priced.time.step, way)) return;
    found_.erase(own->second);
    own->second = key;
  }
  found_.emplace(key, Found{priced, way});
  if (found_.size() <= num_best_) return;
  const auto slowest = std::prev(found_.end());
  key_of_.erase(std::get<2>(slowest->first));
  found_.erase(slowest);
}

std::vector<PricedLayout> FastestLayouts::layouts() const {
  std::vector<PricedLayout> all;
  for (const auto& [key, found] : found_) all.push_back(found.priced);
  return all;
}

bool LayoutFront::is_done(double least_s) const {
  return !by_time_.empty() && least_s > kFrontSlowest * by_time_.begin()->first;
}

bool LayoutFront::is_beaten(double least_s, int64_t least_bytes) const {
  if (is_done(least_s)) return true;
  const auto slower = by_time_.upper_bound(least_s);
  if (slower == by_time_.begin()) return false;
  // The last one needs the least of those that are at most as slow.
  const int64_t bytes = std::prev(slower)->second.arena_bytes;
  return double(bytes) <= (1.0 + kFrontStep) * double(least_bytes);
}

void LayoutFront::keep(const PricedLayout& priced, int64_t, const LayoutWay&) {
  const auto own = by_time_.insert_or_assign(priced.time.step, priced).first;
  auto next = std::next(own);
  while (next != by_time_.end() && next->second.arena_bytes >= priced.arena_bytes) {
    next = by_time_.erase(next);
  }
}

std::vector<PricedLayout> LayoutFront::layouts() const {
  std::vector<PricedLayout> all;
  for (const auto& [step_s, priced] : by_time_) {
    if (!is_done(step_s)) all.push_back(priced);
  }
  return all;
}

}  // namespace trireme
