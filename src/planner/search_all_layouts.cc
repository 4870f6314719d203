#include <algorithm>
#include <tuple>
#include <utility>

#include "planner/search_layout.h"

namespace trireme {
namespace {

// The meshes of layouts, each once.
std::vector<Mesh> meshes_among(const std::vector<PricedLayout>& layouts) {
  std::vector<Mesh> meshes;
  for (const PricedLayout& priced : layouts) {
    const Mesh& mesh = priced.layout.mesh;
    if (std::find(meshes.begin(), meshes.end(), mesh) == meshes.end()) meshes.push_back(mesh);
  }
  return meshes;
}

// True if both are one layout, run in different ways.
bool is_same_layout(LayoutChoice a, const LayoutChoice& b) {
  a.mesh.order = b.mesh.order;
  a.transfers = b.transfers;
  return a == b;
}

// Lists a layout that was found in both orders in the faster one, and in the usual one if both take
// the same time.
std::vector<PricedLayout> fastest_of(std::vector<PricedLayout> best,
                                     const std::vector<PricedLayout>& in_other_order,
                                     size_t num_best) {
  for (const PricedLayout& other : in_other_order) {
    const auto own = std::find_if(best.begin(), best.end(), [&](const PricedLayout& priced) {
      return is_same_layout(priced.layout, other.layout);
    });
    if (own == best.end()) {
      best.push_back(other);
    } else if (other.time.step < own->time.step) {
      *own = other;
    }
  }
  std::stable_sort(best.begin(), best.end(), [](const PricedLayout& a, const PricedLayout& b) {
    return std::tie(a.time.step, a.arena_bytes) < std::tie(b.time.step, b.arena_bytes);
  });
  best.resize(std::min(best.size(), num_best));
  return best;
}

}  // namespace

Result<LayoutSearch> search_layout(const RunConfig& config, const HostFacts& host,
                                   const Hardware& hardware, int num_ranks, int num_best) {
  LayoutSpace space = all_layouts(num_ranks, config, hardware);
  TRIREME_TRY(found, search_layout(config, host, hardware, space, num_best));
  space.orders = orders_on(hardware);
  std::erase(space.orders, kUsualOrder);
  if (num_ranks <= kMostRanksInEveryOrder || space.orders.empty()) return found;
  space.meshes = meshes_among(found.best);
  TRIREME_TRY(ordered, search_layout(config, host, hardware, space, num_best));
  found.best = fastest_of(std::move(found.best), ordered.best, size_t(std::max(num_best, 1)));
  found.num_simulated += ordered.num_simulated;
  return found;
}

}  // namespace trireme
