#include "schema/mesh.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/check.h"

namespace trireme {

std::string_view name_of(MeshAxis axis) {
  switch (axis) {
    case MeshAxis::Tp:
      return "tp";
    case MeshAxis::Cp:
      return "cp";
    case MeshAxis::Pp:
      return "pp";
    case MeshAxis::Dp:
      return "dp";
    case MeshAxis::Ep:
      return "ep";
  }
  return "?";
}

MeshCoords coords_of(const Mesh& mesh, int position) {
  MeshCoords coords;
  coords.tp = position % mesh.tp;
  coords.cp = position / mesh.tp % mesh.cp;
  coords.pp = position / (mesh.tp * mesh.cp) % mesh.pp;
  coords.dp = position / (mesh.tp * mesh.cp * mesh.pp);
  const int fold = coords.cp + mesh.cp * coords.dp;
  coords.ep = fold % mesh.ep;
  coords.expert_dp = fold / mesh.ep;
  return coords;
}

int position_of(const Mesh& mesh, const MeshCoords& coords) {
  return coords.tp + mesh.tp * (coords.cp + mesh.cp * (coords.pp + mesh.pp * coords.dp));
}

std::vector<int> positions_along(const Mesh& mesh, MeshAxis axis, int position) {
  using Coord = int MeshCoords::*;
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
