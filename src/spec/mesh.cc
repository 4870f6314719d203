#include "spec/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace trireme {
namespace {

constexpr MeshAxis kAxes[] = {MeshAxis::Tp, MeshAxis::Cp, MeshAxis::Pp,
                              MeshAxis::Dp, MeshAxis::Ep, MeshAxis::ExpertDp};

}  // namespace

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
    case MeshAxis::ExpertDp:
      return "expert_dp";
  }
  return "?";
}

std::string name_of(MeshAxes axes) {
  std::string name;
  for (MeshAxis axis : kAxes) {
    if (!axes.has(axis)) continue;
    if (!name.empty()) name += '_';
    name += name_of(axis);
  }
  return name;
}

std::vector<std::string> problems_of(const Mesh& mesh) {
  std::vector<std::string> problems;
  for (const auto& [name, degree] : {std::pair{"tp", mesh.tp},
                                     {"cp", mesh.cp},
                                     {"pp", mesh.pp},
                                     {"dp", mesh.dp},
                                     {"ep", mesh.ep}}) {
    if (degree < 1) {
      problems.push_back(fmt::format("parallel.{} = {} must be at least 1", name, degree));
    }
  }
  if (problems.empty() && mesh.dp * mesh.cp % mesh.ep != 0) {
    problems.push_back(
        fmt::format("parallel.ep = {} must divide dp * cp = {} * {}, inside which "
                    "experts lie; change ep or dp",
                    mesh.ep, mesh.dp, mesh.cp));
  } else if (problems.empty() && mesh.cp % mesh.ep != 0 && mesh.ep % mesh.cp != 0) {
    problems.push_back(fmt::format(
        "parallel.ep = {} must divide parallel.cp = {} or be a multiple of it; change ep or cp",
        mesh.ep, mesh.cp));
  }
  return problems;
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

std::vector<int> positions_along(const Mesh& mesh, MeshAxes axes, int position) {
  const bool experts = axes.has(MeshAxis::Ep) || axes.has(MeshAxis::ExpertDp);
  TRIREME_CHECK(!experts || (!axes.has(MeshAxis::Cp) && !axes.has(MeshAxis::Dp)),
                "ep is folded out of dp x cp: " + name_of(axes) + " is no product of axes");
  const MeshCoords here = coords_of(mesh, position);
  std::vector<int> positions;
  for (int other = 0; other < mesh.size(); ++other) {
    const MeshCoords there = coords_of(mesh, other);
    bool same = (axes.has(MeshAxis::Tp) || there.tp == here.tp) &&
                (axes.has(MeshAxis::Pp) || there.pp == here.pp);
    if (experts) {
      same = same && (axes.has(MeshAxis::Ep) || there.ep == here.ep) &&
             (axes.has(MeshAxis::ExpertDp) || there.expert_dp == here.expert_dp);
    } else {
      same = same && (axes.has(MeshAxis::Cp) || there.cp == here.cp) &&
             (axes.has(MeshAxis::Dp) || there.dp == here.dp);
    }
    if (same) positions.push_back(other);
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

bool crosses_nodes(const Mesh& mesh, MeshAxes axes, std::span<const int> rank_at,
                   std::span<const int> node_of) {
  for (int position = 0; position < mesh.size(); ++position) {
    for (int other : positions_along(mesh, axes, position)) {
      if (node_of[size_t(rank_at[size_t(other)])] != node_of[size_t(rank_at[size_t(position)])]) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace trireme
