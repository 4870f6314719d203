#pragma once

#include <compare>
#include <map>
#include <tuple>
#include <vector>

#include "planner/search_layout.h"

namespace trireme {

// One way to run a layout of a search: its order of the mesh axes, its memory.offload, and its
// buckets and prefetch, each numbered from 0 in the order of preference.
struct LayoutWay {
  int order = 0;
  int offload = 0;
  int transfers = 0;

  friend auto operator<=>(const LayoutWay&, const LayoutWay&) = default;
};

// A search keeps these of the layouts that it has priced, and drops those that it no longer needs.
class KeptLayouts {
 public:
  virtual ~KeptLayouts() = default;
  // True if no layout that takes at least so long is needed.
  virtual bool is_done(double least_s) const = 0;
  // True if a layout that takes at least so long and needs at least so much is not needed.
  virtual bool is_beaten(double least_s, int64_t least_bytes) const = 0;
  // True if a layout is wanted in a slower way that needs less memory, too.
  virtual bool wants_smaller_ways() const = 0;
  // `index` is that of the layout.
  virtual void keep(const PricedLayout& priced, int64_t index, const LayoutWay& way) = 0;
  // Sorted by time.
  virtual std::vector<PricedLayout> layouts() const = 0;
};

// The fastest layouts, each in its fastest way. If two ways take the same time, the first is kept.
class FastestLayouts : public KeptLayouts {
 public:
  explicit FastestLayouts(size_t num_best) : num_best_(num_best) {}
  bool is_done(double least_s) const override;
  bool is_beaten(double least_s, int64_t least_bytes) const override;
  bool wants_smaller_ways() const override { return false; }
  void keep(const PricedLayout& priced, int64_t index, const LayoutWay& way) override;
  std::vector<PricedLayout> layouts() const override;

 private:
  using Key = std::tuple<double, int64_t, int64_t>;  // time, allocated bytes, index
  struct Found {
    PricedLayout priced;
    LayoutWay way;
  };

  size_t num_best_;
  std::map<Key, Found> found_;
  std::map<int64_t, Key> key_of_;  // [index] of those in found_
};

// The layouts that nothing beats in both time and memory (search_front).
class LayoutFront : public KeptLayouts {
 public:
  bool is_done(double least_s) const override;
  bool is_beaten(double least_s, int64_t least_bytes) const override;
  bool wants_smaller_ways() const override { return true; }
  void keep(const PricedLayout& priced, int64_t index, const LayoutWay& way) override;
  std::vector<PricedLayout> layouts() const override;

 private:
  std::map<double, PricedLayout> by_time_;  // with falling memory
};

}  // namespace trireme
