#include "schema/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/check.h"
#include "schema/run_config.h"
#include "schema/stage_counts.h"

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

// The ranks of one place of the pipeline.
Mesh place_of(const Mesh& mesh, int place) {
  Mesh own{.tp = mesh.tp, .cp = mesh.cp, .dp = mesh.dp_at(place), .ep = mesh.ep};
  own.order = mesh.order;
  return own;
}

int first_of_place(const Mesh& mesh, int place) {
  const auto begin = mesh.stage_dp.begin();
  return mesh.tp * mesh.cp * std::accumulate(begin, begin + place, 0);
}

}  // namespace

int Mesh::size() const { return stage_dp.empty() ? tp * cp * pp * dp : first_of_place(*this, pp); }

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
  Mesh mesh{parallel.tp, parallel.cp, parallel.pp,
            parallel.dp, parallel.ep, parse_mesh_order(parallel.order).value()};
  const std::vector<int> stage_dp = parse_stage_counts(parallel.stage_dp).value();
  const auto is_usual = [&](int ranks) { return ranks == parallel.dp; };
  if (!std::all_of(stage_dp.begin(), stage_dp.end(), is_usual)) mesh.stage_dp = stage_dp;
  return mesh;
}

bool has_possible_stage_dp(const ParallelConfig& parallel) {
  const Result<std::vector<int>> stage_dp = parse_stage_counts(parallel.stage_dp);
  return stage_dp.ok() && (stage_dp->empty() || int64_t(stage_dp->size()) == parallel.pp);
}

int64_t num_ranks(const ParallelConfig& parallel) {
  const Result<std::vector<int>> stage_dp = parse_stage_counts(parallel.stage_dp);
  const int64_t along_pp_and_dp =
      has_possible_stage_dp(parallel) && !stage_dp->empty()
          ? std::accumulate(stage_dp->begin(), stage_dp->end(), int64_t{0})
          : int64_t{parallel.pp} * parallel.dp;
  return int64_t{parallel.tp} * parallel.cp * along_pp_and_dp;
}

std::string degrees_text(const Mesh& mesh) {
  const std::string tp_and_cp = fmt::format("tp {} x cp {}", mesh.tp, mesh.cp);
  if (mesh.stage_dp.empty()) return fmt::format("{} x pp {} x dp {}", tp_and_cp, mesh.pp, mesh.dp);
  return fmt::format("{} x dp ({})", tp_and_cp, fmt::join(mesh.stage_dp, " + "));
}

MeshCoords coords_of(const Mesh& mesh, int position) {
  if (!mesh.stage_dp.empty()) {
    int place = 0;
    while (position >= first_of_place(mesh, place + 1)) ++place;
    MeshCoords coords = coords_of(place_of(mesh, place), position - first_of_place(mesh, place));
    coords.pp = place;
    return coords;
  }
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
  if (!mesh.stage_dp.empty()) {
    MeshCoords in_place = coords;
    in_place.pp = 0;
    return first_of_place(mesh, coords.pp) + position_of(place_of(mesh, coords.pp), in_place);
  }
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
  const bool is_of_pipeline = axis == MeshAxis::Pp && !mesh.stage_dp.empty();
  std::vector<int> positions;
  for (int other = 0; other < mesh.size(); ++other) {
    const MeshCoords there = coords_of(mesh, other);
    const bool is_along = std::all_of(others.begin(), others.end(), [&](Coord coord) {
      if (is_of_pipeline && coord == &MeshCoords::dp) return true;
      return there.*coord == here.*coord;
    });
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
