#include "schema/placement.h"

#include <fmt/format.h>

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
    case Placement::Kind::Halo:
      return fmt::format("halo({} rows, stride {}, padding {})", placement.window.size,
                         placement.window.stride, placement.window.padding);
  }
  return "?";
}

IndexRange local_range(int64_t extent, const Placement& placement, int group_size, int rank) {
  const auto balanced = [&](int64_t total) {
    const int64_t begin = balanced_begin(total, group_size, rank);
    return IndexRange{begin, begin + balanced_count(total, group_size, rank)};
  };
  switch (placement.kind) {
    case Placement::Kind::Shard:
      return balanced(extent);
    case Placement::Kind::Halo:
      return rows_read(placement.window, extent, balanced(placement.window.positions(extent)));
    default:
      return {0, extent};
  }
}

IndexRange halo_rows(int64_t extent, const Placement& halo, int group_size, int from, int to) {
  if (from == to) return {};
  return shared_by(local_range(extent, Placement::shard(1), group_size, from),
                   local_range(extent, halo, group_size, to));
}

bool has_halo_rows(int64_t extent, const Placement& halo, int group_size) {
  for (int rank = 0; rank < group_size; ++rank) {
    const IndexRange own = local_range(extent, Placement::shard(1), group_size, rank);
    const IndexRange read = local_range(extent, halo, group_size, rank);
    if (shared_by(own, read).count() != read.count()) return true;
  }
  return false;
}

Shape local_shape(const Shape& global, Placement placement, int group_size, int rank) {
  const bool is_part =
      placement.kind == Placement::Kind::Shard || placement.kind == Placement::Kind::Halo;
  if (!is_part) return global;
  std::array<int64_t, 4> extents{};
  for (int dim = 0; dim < global.rank(); ++dim) extents[size_t(dim)] = global[dim];
  extents[size_t(placement.dim)] =
      local_range(global[placement.dim], placement, group_size, rank).count();
  return Shape(std::span<const int64_t>(extents.data(), size_t(global.rank())));
}

}  // namespace trireme
