#include "planner/layout_space.h"

#include "schema/model_spec.h"

namespace trireme {

std::vector<MeshOrder> orders_on(const Hardware& hardware) {
  if (hardware.tiers.size() < 2) return {kUsualOrder};
  return {kUsualOrder,
          {MeshAxis::Tp, MeshAxis::Dp, MeshAxis::Cp, MeshAxis::Pp},
          {MeshAxis::Tp, MeshAxis::Cp, MeshAxis::Dp, MeshAxis::Pp}};
}

LayoutSpace all_layouts(int num_ranks, const RunConfig& config, const Hardware& hardware) {
  LayoutSpace space{.meshes = meshes_of(num_ranks, with_defaults(config.model, 0)),
                    .bucket_bytes = {0, kSearchedBucketBytes},
                    .prefetches = {1, 2}};
  if (num_ranks <= kMostRanksInEveryOrder) space.orders = orders_on(hardware);
  if (hardware.offload_bytes_per_s > 0.0) {
    space.offloads = {OffloadChoice::None, OffloadChoice::Optimizer, OffloadChoice::All};
  }
  return space;
}

}  // namespace trireme
