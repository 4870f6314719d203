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
  const PlaceDegrees degrees = mesh.at(place);
  Mesh own{.tp = degrees.tp, .cp = mesh.cp, .dp = degrees.dp, .ep = mesh.ep};
  own.order = mesh.order;
  return own;
}

int first_of_place(const Mesh& mesh, int place) {
  int first = 0;
  for (int before = 0; before < place; ++before) {
    first += mesh.tp_at(before) * mesh.cp * mesh.dp_at(before);
  }
  return first;
}

// The degrees of places as they are written, [pp]; none if no key states any, or wrong ones.
std::vector<PlaceDegrees> stated_places(const ParallelConfig& parallel) {
  if (!states_places(parallel) || !has_possible_places(parallel)) return {};
  const std::vector<int> tp = parse_stage_counts(parallel.stage_tp).value();
  const std::vector<int> dp = parse_stage_counts(parallel.stage_dp).value();
  std::vector<PlaceDegrees> places;
  for (size_t place = 0; place < size_t(parallel.pp); ++place) {
    places.push_back({tp.empty() ? parallel.tp : tp[place], dp.empty() ? parallel.dp : dp[place]});
  }
  return places;
}

}  // namespace

int Mesh::size() const { return is_uneven() ? first_of_place(*this, pp) : tp * cp * pp * dp; }

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
  const std::vector<PlaceDegrees> places = stated_places(parallel);
  const PlaceDegrees usual{parallel.tp, parallel.dp};
  const auto is_usual = [&](const PlaceDegrees& place) { return place == usual; };
  if (!std::all_of(places.begin(), places.end(), is_usual)) mesh.places = places;
  return mesh;
}

bool states_places(const ParallelConfig& parallel) {
  return !parallel.stage_tp.empty() || !parallel.stage_dp.empty();
}

bool has_possible_places(const ParallelConfig& parallel) {
  const auto is_possible = [&](const std::string& text) {
    const Result<std::vector<int>> counts = parse_stage_counts(text);
    return counts.ok() && (counts->empty() || int64_t(counts->size()) == parallel.pp);
  };
  return is_possible(parallel.stage_tp) && is_possible(parallel.stage_dp);
}

int64_t num_ranks(const ParallelConfig& parallel) {
  const std::vector<PlaceDegrees> places = stated_places(parallel);
  int64_t ranks = 0;
  for (const PlaceDegrees& place : places) ranks += int64_t{place.tp} * place.dp;
  if (places.empty()) ranks = int64_t{parallel.pp} * parallel.tp * parallel.dp;
  return parallel.cp * ranks;
}

std::string places_text(const ParallelConfig& parallel) {
  std::vector<std::string> stated;
  const auto add = [&](const char* key, const std::string& counts) {
    if (!counts.empty()) stated.push_back(fmt::format("{} = \"{}\"", key, counts));
  };
  add("stage_tp", parallel.stage_tp);
  add("stage_dp", parallel.stage_dp);
  return fmt::format("{}", fmt::join(stated, " and "));
}

std::string degrees_text(const Mesh& mesh) {
  if (!mesh.is_uneven()) {
    return fmt::format("tp {} x cp {} x pp {} x dp {}", mesh.tp, mesh.cp, mesh.pp, mesh.dp);
  }
  std::vector<std::string> places;
  for (const auto& [tp, dp] : mesh.places) places.push_back(fmt::format("{} x {}", tp, dp));
  return fmt::format("cp {} x tp x dp ({})", mesh.cp, fmt::join(places, " + "));
}

MeshCoords coords_of(const Mesh& mesh, int position) {
  if (mesh.is_uneven()) {
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
  if (mesh.is_uneven()) {
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

int stride_of(const Mesh& mesh, MeshAxis axis, int place) {
  MeshCoords first, next;
  if (axis != MeshAxis::Pp) first.pp = next.pp = place;
  next.*coord_along(axis) = 1;
  return position_of(mesh, next) - position_of(mesh, first);
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
  const bool is_of_pipeline = axis == MeshAxis::Pp && mesh.is_uneven();
  std::vector<int> positions;
  for (int other = 0; other < mesh.size(); ++other) {
    const MeshCoords there = coords_of(mesh, other);
    const bool is_along = std::all_of(others.begin(), others.end(), [&](Coord coord) {
      if (is_of_pipeline && coord != &MeshCoords::cp) return true;
      return there.*coord == here.*coord;
    });
    if (is_along) positions.push_back(other);
  }
  return positions;
}

int rank_along_pp(const Mesh& mesh, const MeshCoords& coords) {
  if (!mesh.is_uneven()) return coords.pp;
  Mesh own = place_of(mesh, coords.pp);
  own.cp = 1;
  return first_of_place(mesh, coords.pp) / mesh.cp +
         position_of(own, {.tp = coords.tp, .dp = coords.dp});
}

std::vector<int> place_on_nodes(std::span<const int> node_of) {
  std::vector<int> rank_at(node_of.size());
  std::iota(rank_at.begin(), rank_at.end(), 0);
  std::stable_sort(rank_at.begin(), rank_at.end(),
                   [&](int a, int b) { return node_of[size_t(a)] < node_of[size_t(b)]; });
  return rank_at;
}

}  // namespace trireme
