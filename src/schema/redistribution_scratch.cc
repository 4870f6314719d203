#include "schema/redistribution_scratch.h"

#include <algorithm>

namespace trireme {
namespace {

using PlacementKind = Placement::Kind;

// What a rank sends and receives is packed; it is the same in both directions.
int64_t halo_elements(const Placement& halo, const Shape& global, int group_size) {
  int64_t most = 0;
  for (int rank = 0; rank < group_size; ++rank) {
    int64_t rows = 0;
    for (int peer = 0; peer < group_size; ++peer) {
      rows += halo_rows(global[1], halo, group_size, rank, peer).count() +
              halo_rows(global[1], halo, group_size, peer, rank).count();
    }
    most = std::max(most, rows);
  }
  return most * global[0] * global[2];
}

}  // namespace

int64_t redistribute_scratch_bytes(const Redistribution& change, const Shape& global, DType dtype,
                                   int group_size) {
  const auto [from, to] = change;
  const auto elements_of = [&](const Placement& p) {
    return local_shape(global, p, group_size, 0).num_elements();
  };
  // Packing is needed if a part of the dim is not one piece of memory.
  const auto packed = [&](const Placement& p, int dim) {
    const Shape local = local_shape(global, p, group_size, 0);
    int64_t pieces = 1;
    for (int i = 0; i < dim; ++i) pieces *= local[i];
    return pieces > 1 ? elements_of(p) : int64_t{0};
  };
  const bool to_whole = to.kind == PlacementKind::Replicate || to.kind == PlacementKind::Invariant;
  int64_t elements = 0;
  if (to.kind == PlacementKind::Halo || from.kind == PlacementKind::Halo) {
    elements = halo_elements(to.kind == PlacementKind::Halo ? to : from, global, group_size);
  } else if (from.kind == PlacementKind::Shard && to_whole) {
    elements = packed(to, from.dim);
  } else if (from.kind == PlacementKind::Partial && to.kind == PlacementKind::Shard) {
    elements = packed(from, to.dim);
  } else if (from.kind == PlacementKind::Shard && to.kind == PlacementKind::Shard &&
             from.dim != to.dim) {
    elements = packed(from, to.dim) + packed(to, from.dim);
  }
  return elements * size_of(dtype);
}

}  // namespace trireme
