#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "sweep/swept_key.h"

namespace trireme {

// A point of a sweep: a value for every swept key, in their order, as --set takes it.
using SweepPoint = std::vector<std::string>;

// Returns all combinations of the values. The last key changes fastest. An error if a range does
// not say how many values it has, if a key is named twice, or if there are too many points.
Result<std::vector<SweepPoint>> grid_points(const std::vector<SweptKey>& keys);

// Draws `count` different points: uniformly within a range, in the logarithm for a log range, and
// one of the values of a list. Number i of a key depends on the seed, on the key and on i alone.
Result<std::vector<SweepPoint>> random_points(const std::vector<SweptKey>& keys, int64_t count,
                                              uint64_t seed);

// Returns "key=value" for every key, for --set.
std::vector<std::string> overrides_of(const std::vector<SweptKey>& keys, const SweepPoint& point);

}  // namespace trireme
