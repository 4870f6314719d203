#include "schema/mesh.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/check.h"
#include "schema/run_config.h"

namespace trireme {
namespace {

using Coord = int MeshCoords::*;

// The axis has a place in the order.
Coord coord_along(MeshAxis axis) {
  switch (axis) {
    case MeshAxis::Tp:
      return &MeshCoords::tp;
    case MeshAxis::Cp:
      return &MeshCoords::cp;
    case MeshAxis::Pp:
      return &MeshCoords::pp;
    case MeshAxis::Dp:
      return &MeshCoords::dp;
    case MeshAxis::Ep:
      break;
  }
  TRIREME_CHECK(false, "ep has no place in the order of a mesh");
}

}  // namespace

int Mesh::degree(MeshAxis axis) const {
  switch (axis) {
    case MeshAxis::Tp:
      return tp;
    case MeshAxis::Cp:
      return cp;
    case MeshAxis::Pp:
      return pp;
    case MeshAxis::Dp:
      return dp;
    case MeshAxis::Ep:
      return ep;
  }
  return 1;
}

int MeshCoords::along(MeshAxis axis) const {
  return axis == MeshAxis::Ep ? ep : this->*coord_along(axis);
}

Mesh mesh_of(const ParallelConfig& parallel) {
  return {parallel.tp, parallel.cp, parallel.pp,
          parallel.dp, parallel.ep, parse_mesh_order(parallel.order).value()};
}

MeshCoords coords_of(const Mesh& mesh, int position) {
  MeshCoords coords;
  for (const MeshAxis axis : mesh.order) {
    coords.*coord_along(axis) = position % mesh.degree(axis);
    position /= mesh.degree(axis);
  }
  const int fold = coords.cp + mesh.cp * coords.dp;
  coords.ep = fold % mesh.ep;
  coords.expert_dp = fold / mesh.ep;
  return coords;
}

int position_of(const Mesh& mesh, const MeshCoords& coords) {
  int position = 0;
  int stride = 1;
  for (const MeshAxis axis : mesh.order) {
    position += stride * coords.*coord_along(axis);
    stride *= mesh.degree(axis);
  }
  return position;
}

int stride_of(const Mesh& mesh, MeshAxis axis) {
  MeshCoords next;
  next.*coord_along(axis) = 1;
  return position_of(mesh, next);
}

bool are_numbered_alike(const Mesh& a, const Mesh& b) {
  return std::all_of(a.order.begin(), a.order.end(), [&](MeshAxis axis) {
    return a.degree(axis) == 1 || stride_of(a, axis) == stride_of(b, axis);
  });
}

std::vector<int> positions_along(const Mesh& mesh, MeshAxis axis, int position) {
  const auto others = [&]() -> std::array<Coord, 3> {
    switch (axis) {
      case MeshAxis::Tp:
        return {&MeshCoords::cp, &MeshCoords::pp, &MeshCoords::dp};
      case MeshAxis::Cp:
        return {&MeshCoords::tp, &MeshCoords::pp, &MeshCoords::dp};
      case MeshAxis::Pp:
        return {&MeshCoords::tp, &MeshCoords::cp, &MeshCoords::dp};
      case MeshAxis::Dp:
        return {&MeshCoords::tp, &MeshCoords::cp, &MeshCoords::pp};
      case MeshAxis::Ep:
        return {&MeshCoords::tp, &MeshCoords::pp, &MeshCoords::expert_dp};
    }
    TRIREME_CHECK(false, "unknown MeshAxis");
  }();
  const MeshCoords here = coords_of(mesh, position);
  std::vector<int> positions;
  for (int other = 0; other < mesh.size(); ++other) {
    const MeshCoords there = coords_of(mesh, other);
    const bool is_along = std::all_of(others.begin(), others.end(),
                                      [&](Coord coord) { return there.*coord == here.*coord; });
    if (is_along) positions.push_back(other);
  }
  return positions;
}

std::vector<int> place_on_nodes(std::span<const int> node_of) {
  std::vector<int> rank_at(node_of.size());
  std::iota(rank_at.begin(), rank_at.end(), 0);
  std::stable_sort(rank_at.begin(), rank_at.end(),
                   [&](int a, int b) { return node_of[size_t(a)] < node_of[size_t(b)]; });
  return rank_at;
}

}  // namespace trireme
