#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/world.h"
#include "schema/mesh.h"

namespace trireme {

// Returns the position of this rank in the mesh that covers the world.
int position_in_mesh(const World& world);

// The groups of one rank along the axes of a mesh. The mesh is laid over the nodes so that its
// inner axes stay inside a node. Ranks of a group are ordered by their coordinate along its axis,
// those of a pipeline whose places differ (Mesh::places) by their positions.
class MeshGroups {
 public:
  // All ranks of the world call it. mesh.size() must be the size of the world.
  MeshGroups(World& world, const Mesh& mesh);

  const Mesh& mesh() const { return mesh_; }
  int position() const { return position_; }
  const MeshCoords& coords() const { return coords_; }
  // Returns the world rank at a mesh position.
  int rank_at(int position) const { return rank_at_[size_t(position)]; }

  Group& tp() const { return group(MeshAxis::Tp); }
  Group& cp() const { return group(MeshAxis::Cp); }
  Group& pp() const { return group(MeshAxis::Pp); }
  Group& dp() const { return group(MeshAxis::Dp); }
  Group& ep() const { return group(MeshAxis::Ep); }
  Group& world() const { return world_.group(); }
  // The axis is tp, cp, pp, dp or ep.
  Group& group(MeshAxis axis) const;

  // Payload by axis: "tp", "cp", "pp", "dp", "ep" and "world".
  std::vector<std::pair<std::string, Traffic>> traffic() const;

 private:
  World& world_;
  Mesh mesh_;
  std::vector<int> rank_at_;
  int position_ = 0;
  MeshCoords coords_;
  std::vector<std::unique_ptr<Group>> groups_;  // in the order of kAxes
};

}  // namespace trireme
