#pragma once

#include <cstdint>
#include <string>

#include "base/shape.h"
#include "schema/image_rows.h"

namespace trireme {

// How a tensor is placed on the ranks of one mesh axis:
// Replicate  all have the same value; each has a partial sum of its gradient
// Shard(d)   each has a part of dim d, in rank order, balanced
// Partial    the value is the sum over the ranks
// Invariant  all have the same value and the same gradient
// Halo       dim 1 counts rows of images, and a window makes other rows from them. Each has the
//            rows from which the window makes the rank's balanced part of those, so neighbours have
//            some rows in common: the halo. In the backward pass, each rank that
//            has such a row computes a part of its gradient; these parts are summed.
struct Placement {
  enum class Kind : uint8_t { Replicate, Shard, Partial, Invariant, Halo };
  Kind kind = Kind::Replicate;
  int dim = 0;            // only for Shard and Halo
  RowWindow window = {};  // only for Halo

  static constexpr Placement replicate() { return {Kind::Replicate, 0}; }
  static constexpr Placement shard(int dim) { return {Kind::Shard, dim}; }
  static constexpr Placement partial() { return {Kind::Partial, 0}; }
  static constexpr Placement invariant() { return {Kind::Invariant, 0}; }
  static constexpr Placement halo(const RowWindow& window) { return {Kind::Halo, 1, window}; }
  friend bool operator==(const Placement&, const Placement&) = default;
};

// Returns the placement of the gradient of a tensor with placement p.
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

std::string to_string(Placement placement);  // such as "replicate" or "shard(1)"

// Returns the element count of part `part` if `total` elements are cut into `parts` parts. The
// first total mod parts parts have one element more.
constexpr int64_t balanced_count(int64_t total, int parts, int part) {
  return total / parts + (part < total % parts ? 1 : 0);
}
constexpr int64_t balanced_begin(int64_t total, int parts, int part) {
  return total / parts * part + (part < total % parts ? part : total % parts);
}

// Returns the indices of the dim of a placement that a rank has of `extent`: for Shard a balanced
// part, for Halo what the windows of its part read, otherwise all.
IndexRange local_range(int64_t extent, const Placement& placement, int group_size, int rank);

// Returns the rows of an image of `extent` rows that rank `from` has in Shard(1) and another rank
// `to` has in the halo as well. `from` == `to`: none.
IndexRange halo_rows(int64_t extent, const Placement& halo, int group_size, int from, int to);
// True if a rank has rows of another one in the halo.
bool has_halo_rows(int64_t extent, const Placement& halo, int group_size);

// Returns the shape of a rank's part of a tensor of shape `global`: for Shard and Halo a part of
// its dim (local_range), otherwise the whole.
Shape local_shape(const Shape& global, Placement placement, int group_size, int rank);

// A change from one placement to another.
struct Redistribution {
  Placement from;
  Placement to;
  friend bool operator==(const Redistribution&, const Redistribution&) = default;
};

constexpr Redistribution backward_of(const Redistribution& forward) {
  return {dual(forward.to), dual(forward.from)};
}

}  // namespace trireme
