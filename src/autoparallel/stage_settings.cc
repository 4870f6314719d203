#include "autoparallel/stage_settings.h"

#include <algorithm>

namespace trireme {

std::vector<StateSharding> shardings_of(const StageMesh& mesh, Recompute recompute) {
  const bool has_data = std::any_of(mesh.dims.begin(), mesh.dims.end(), [](const MeshDim& dim) {
    return dim.degree() > 1 && dim.rows == Role::Data;
  });
  if (!has_data) return {StateSharding::Nothing};
  if (recompute != Recompute::None) return {StateSharding::Optimizer, StateSharding::Everything};
  return {StateSharding::Nothing, StateSharding::Optimizer, StateSharding::Everything};
}

bool is_mirrored(const StageMesh& mesh, int ranks_per_node) {
  return mesh.num_ranks() <= ranks_per_node && mesh.dims[0].degree() > mesh.dims[1].degree() &&
         mesh.dims[1].degree() > 1;
}

std::vector<MeshPlacement> streams_of(const StageMesh& mesh) {
  std::vector<MeshPlacement> streams;
  for (const DimPlacement outer : {DimPlacement::Invariant, DimPlacement::Rows}) {
    for (const DimPlacement inner : {DimPlacement::Invariant, DimPlacement::Rows}) {
      if (mesh.dims[0].degree() == 1 && outer == DimPlacement::Rows) continue;
      if (mesh.dims[1].degree() == 1 && inner == DimPlacement::Rows) continue;
      streams.push_back({outer, inner});
    }
  }
  return streams;
}

MeshPlacement stream_of(const Roles& roles) {
  MeshPlacement stream;
  for (size_t d = 0; d < 2; ++d) {
    const bool is_whole = roles[d] == Role::Tensor || roles[d] == Role::Whole;
    stream[d] = is_whole ? DimPlacement::Invariant : DimPlacement::Rows;
  }
  return stream;
}

}  // namespace trireme
