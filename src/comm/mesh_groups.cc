#include "comm/mesh_groups.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme {
namespace {

struct Product {
  MeshAxes axes;
  const char* account;
};

const Product kProducts[] = {
    {MeshAxis::Tp, "tp"},
    {MeshAxis::Cp, "cp"},
    {MeshAxis::Pp, "pp"},
    {MeshAxis::Dp, "dp"},
    {MeshAxis::Ep, "ep"},
    {MeshAxis::ExpertDp, "dp"},
    {MeshAxis::Cp | MeshAxis::Dp, "dp"},
    {MeshAxis::Tp | MeshAxis::Cp, "tp"},
    {MeshAxis::Tp | MeshAxis::Pp, "pp"},
};

}  // namespace

MeshGroups::MeshGroups(World& world, const Mesh& mesh)
    : world_(world), mesh_(mesh), rank_at_(place_on_nodes(world.node_of())) {
  TRIREME_CHECK(
      mesh.size() == world.size(),
      fmt::format("tp * cp * pp * dp = {} * {} * {} * {} is not the {} ranks of the world", mesh.tp,
                  mesh.cp, mesh.pp, mesh.dp, world.size()));
  const auto found = std::find(rank_at_.begin(), rank_at_.end(), world.rank());
  position_ = int(found - rank_at_.begin());
  coords_ = coords_of(mesh, position_);
  for (const Product& product : kProducts) {
    const int first = positions_along(mesh, product.axes, position_)[0];
    groups_.emplace_back(product.axes,
                         world.group().split(first, position_, name_of(product.axes)));
  }
}

Group& MeshGroups::group(MeshAxes axes) const {
  for (const auto& [own_axes, group] : groups_) {
    if (own_axes == axes) return *group;
  }
  TRIREME_CHECK(false, "no group was made along " + name_of(axes));
  return world_.group();
}

std::vector<std::pair<std::string, Traffic>> MeshGroups::traffic() const {
  std::vector<std::pair<std::string, Traffic>> by_axis = {
      {"tp", {}}, {"cp", {}}, {"pp", {}}, {"dp", {}}, {"ep", {}}, {"world", world().traffic()}};
  for (size_t i = 0; i < groups_.size(); ++i) {
    for (auto& [name, sum] : by_axis) {
      if (name == kProducts[i].account) sum += groups_[i].second->traffic();
    }
  }
  return by_axis;
}

}  // namespace trireme
