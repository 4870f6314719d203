#pragma once

#include <cstdint>
#include <string>

#include "base/shape.h"

namespace trireme {

// How a tensor lies over the ranks of one mesh axis.
//   Replicate  the same value on all; its gradient is a partial sum on each
//   Shard(d)   parts of dim d in rank order, balanced
//   Partial    the value is the sum over the ranks
//   Invariant  the same value on all, and the same gradient on all
struct Placement {
  enum class Kind : uint8_t { Replicate, Shard, Partial, Invariant };
  Kind kind = Kind::Replicate;
  int dim = 0;  // Shard

  static constexpr Placement replicate() { return {Kind::Replicate, 0}; }
  static constexpr Placement shard(int dim) { return {Kind::Shard, dim}; }
  static constexpr Placement partial() { return {Kind::Partial, 0}; }
  static constexpr Placement invariant() { return {Kind::Invariant, 0}; }
  friend bool operator==(const Placement&, const Placement&) = default;
};

// The placement of the gradient of a tensor so placed.
constexpr Placement dual(Placement p) {
  switch (p.kind) {
    case Placement::Kind::Replicate:
      return Placement::partial();
    case Placement::Kind::Partial:
      return Placement::replicate();
    default:
      return p;
  }
}

std::string to_string(Placement placement);  // "replicate", "shard(1)", ...

// Element counts of `parts` parts of `total`: the first total mod parts are one longer.
constexpr int64_t balanced_count(int64_t total, int parts, int part) {
  return total / parts + (part < total % parts ? 1 : 0);
}
constexpr int64_t balanced_begin(int64_t total, int parts, int part) {
  return total / parts * part + (part < total % parts ? part : total % parts);
}

// Shape of a rank's part of a tensor of shape `global`: Shard takes a balanced part of its dim, the
// others have all of it.
Shape local_shape(const Shape& global, Placement placement, int group_size, int rank);

// From one placement to another.
struct Redistribution {
  Placement from;
  Placement to;
  friend bool operator==(const Redistribution&, const Redistribution&) = default;
};

constexpr Redistribution backward_of(const Redistribution& forward) {
  return {dual(forward.to), dual(forward.from)};
}

}  // namespace trireme
