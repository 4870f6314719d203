#include "comm/mesh_groups.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme {
namespace {

constexpr MeshAxis kAxes[] = {MeshAxis::Tp, MeshAxis::Cp, MeshAxis::Pp, MeshAxis::Dp, MeshAxis::Ep};

}  // namespace

int position_in_mesh(const World& world) {
  const std::vector<int> rank_at = place_on_nodes(world.node_of());
  return int(std::find(rank_at.begin(), rank_at.end(), world.rank()) - rank_at.begin());
}

MeshGroups::MeshGroups(World& world, const Mesh& mesh)
    : world_(world), mesh_(mesh), rank_at_(place_on_nodes(world.node_of())) {
  TRIREME_CHECK(mesh.size() == world.size(),
                fmt::format("the mesh of {} ranks does not cover the {} ranks of the world",
                            mesh.size(), world.size()));
  position_ = position_in_mesh(world);
  coords_ = coords_of(mesh, position_);
  for (const MeshAxis axis : kAxes) {
    const int first = positions_along(mesh, axis, position_)[0];
    const int key = axis == MeshAxis::Pp ? rank_along_pp(mesh, coords_) : coords_.along(axis);
    groups_.push_back(world.group().split(first, key, std::string(name_of(axis))));
  }
}

Group& MeshGroups::group(MeshAxis axis) const {
  const auto found = std::find(std::begin(kAxes), std::end(kAxes), axis);
  TRIREME_CHECK(found != std::end(kAxes), "no group was made along " + std::string(name_of(axis)));
  return *groups_[size_t(found - std::begin(kAxes))];
}

std::vector<std::pair<std::string, Traffic>> MeshGroups::traffic() const {
  std::vector<std::pair<std::string, Traffic>> by_axis;
  for (const MeshAxis axis : kAxes) by_axis.emplace_back(name_of(axis), group(axis).traffic());
  by_axis.emplace_back("world", world().traffic());
  return by_axis;
}

}  // namespace trireme
