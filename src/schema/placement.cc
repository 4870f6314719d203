#include "schema/placement.h"

#include <array>
#include <span>

namespace trireme {

std::string to_string(Placement placement) {
  switch (placement.kind) {
    case Placement::Kind::Replicate:
      return "replicate";
    case Placement::Kind::Shard:
      return "shard(" + std::to_string(placement.dim) + ")";
    case Placement::Kind::Partial:
      return "partial";
    case Placement::Kind::Invariant:
      return "invariant";
  }
  return "?";
}

Shape local_shape(const Shape& global, Placement placement, int group_size, int rank) {
  if (placement.kind != Placement::Kind::Shard) return global;
  std::array<int64_t, 4> extents{};
  for (int dim = 0; dim < global.rank(); ++dim) extents[size_t(dim)] = global[dim];
  extents[size_t(placement.dim)] = balanced_count(global[placement.dim], group_size, rank);
  return Shape(std::span<const int64_t>(extents.data(), size_t(global.rank())));
}

}  // namespace trireme
