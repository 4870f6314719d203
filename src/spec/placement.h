#pragma once

#include <cstdint>
#include <string>

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

}  // namespace trireme
