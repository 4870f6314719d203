#include <algorithm>

#include "planner/search_layout.h"

namespace trireme {

Result<LayoutSearch> search_layout(const RunConfig& config, const HostFacts& host,
                                   const Hardware& hardware, int num_ranks, int num_best) {
  LayoutSpace space = all_layouts(num_ranks, config, hardware);
  TRIREME_TRY(found, search_layout(config, host, hardware, space, num_best));
  if (num_ranks <= kMostRanksInEveryOrder) return found;
  space.orders = orders_on(hardware);
  space.meshes.clear();
  for (const PricedLayout& priced : found.best) {
    const Mesh& mesh = priced.layout.mesh;
    const bool is_known =
        std::find(space.meshes.begin(), space.meshes.end(), mesh) != space.meshes.end();
    if (!is_known) space.meshes.push_back(mesh);
  }
  TRIREME_TRY(ordered, search_layout(config, host, hardware, space, num_best));
  found.best = std::move(ordered.best);
  found.num_simulated += ordered.num_simulated;
  return found;
}

}  // namespace trireme
