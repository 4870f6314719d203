#include "sweep/sweep_points.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/philox.h"

namespace trireme {
namespace {

constexpr uint64_t kMostDrawsPerPoint = 1000;

Status check_keys(const std::vector<SweptKey>& keys) {
  std::set<std::string> seen;
  for (const SweptKey& key : keys) {
    if (!seen.insert(key.key).second) {
      return usage(fmt::format("--over {}={}: {} is swept twice; name all its values in one --over",
                               key.key, key.spec, key.key));
    }
  }
  return Done{};
}

// A number uniform in [0, 1) with 53 bits.
double uniform_double(const PhiloxCounter& words) {
  const uint64_t bits = uint64_t{words[0]} << 32 | words[1];
  return double(bits >> 11) * 0x1p-53;
}

// An integer of a linear range has the same chance as every other one.
std::string drawn_value(const SweptKey& key, double share) {
  if (key.spacing == Spacing::List) {
    const auto index = std::min(size_t(share * double(key.values.size())), key.values.size() - 1);
    return key.values[index];
  }
  if (key.spacing == Spacing::Log || !key.is_integer) return number_text(value_at(key, share));
  const double low = std::ceil(key.from), high = std::floor(key.to);
  return number_text(low + std::floor((high - low + 1.0) * share));
}

}  // namespace

Result<std::vector<SweepPoint>> grid_points(const std::vector<SweptKey>& keys) {
  TRIREME_TRY_DONE(check_keys(keys));
  std::vector<SweepPoint> points(1);
  for (const SweptKey& key : keys) {
    if (key.values.empty()) {
      return usage(
          fmt::format("--over {}={}: the range does not say how many values it has; write "
                      "{}5 for five values, or draw N points with --random N",
                      key.key, key.spec, key.spec));
    }
    if (points.size() * key.values.size() > size_t(kMostTrials)) {
      return usage(
          fmt::format("--over {}={}: the sweep would have more than {} trials, {} times "
                      "{}; name fewer values, or draw N points with --random N",
                      key.key, key.spec, kMostTrials, points.size(), key.values.size()));
    }
    std::vector<SweepPoint> longer;
    for (const SweepPoint& point : points) {
      for (const std::string& value : key.values) {
        longer.push_back(point);
        longer.back().push_back(value);
      }
    }
    points = std::move(longer);
  }
  return points;
}

Result<std::vector<SweepPoint>> random_points(const std::vector<SweptKey>& keys, int64_t count,
                                              uint64_t seed) {
  TRIREME_TRY_DONE(check_keys(keys));
  if (count < 1 || count > kMostTrials) {
    return usage(fmt::format("--random {}: a sweep has 1 to {} trials", count, kMostTrials));
  }
  std::vector<SweepPoint> points;
  std::set<SweepPoint> seen;
  for (uint64_t draw = 0; points.size() < size_t(count); ++draw) {
    if (draw >= kMostDrawsPerPoint * uint64_t(count)) {
      return usage(
          fmt::format("--random {}: only {} different points were found; draw at most as "
                      "many, or name more values",
                      count, points.size()));
    }
    SweepPoint point;
    for (const SweptKey& key : keys) {
      const PhiloxCounter words = philox(rng_key(seed, "sweep." + key.key), counter_of(draw, 0));
      point.push_back(drawn_value(key, uniform_double(words)));
    }
    if (seen.insert(point).second) points.push_back(std::move(point));
  }
  return points;
}

std::vector<std::string> overrides_of(const std::vector<SweptKey>& keys, const SweepPoint& point) {
  std::vector<std::string> overrides;
  for (size_t i = 0; i < keys.size(); ++i) overrides.push_back(keys[i].key + "=" + point[i]);
  return overrides;
}

}  // namespace trireme
