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

void sort_and_cut(std::vector<PricedLayout>& layouts, size_t num_best) {
  std::stable_sort(
      layouts.begin(), layouts.end(), [](const PricedLayout& a, const PricedLayout& b) {
        return std::tie(a.time.step, a.arena_bytes) < std::tie(b.time.step, b.arena_bytes);
      });
  layouts.resize(std::min(layouts.size(), num_best));
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
  sort_and_cut(best, num_best);
  return best;
}

// Returns true if every other layout that differs only in recomputation is slower than `priced`.
bool is_faster_than_all_like(const PricedLayout& priced, const std::vector<PricedLayout>& others) {
  return std::none_of(others.begin(), others.end(), [&](const PricedLayout& other) {
    LayoutChoice layout = other.layout;
    layout.recompute = priced.layout.recompute;
    return is_same_layout(layout, priced.layout) && other.time.step <= priced.time.step;
  });
}

Status search_in_other_orders(const RunConfig& config, const HostFacts& host,
                              const Hardware& hardware, LayoutSpace space, int num_best,
                              LayoutSearch& found) {
  space.orders = orders_on(hardware);
  std::erase(space.orders, kUsualOrder);
  if (found.best.front().layout.mesh.size() <= kMostRanksInEveryOrder || space.orders.empty())
    return Done{};
  space.meshes = meshes_among(found.best);
  TRIREME_TRY(ordered, search_layout(config, host, hardware, space, num_best));
  found.best = fastest_of(std::move(found.best), ordered.best, size_t(num_best));
  found.num_simulated += ordered.num_simulated;
  return Done{};
}

// Tries the layouts found with recomputation again with Recompute::Fit, which may recompute fewer
// values. `space` contains all layouts.
Status search_with_fit(RunConfig config, const HostFacts& host, const Hardware& hardware,
                       LayoutSpace space, int num_best, LayoutSearch& found) {
  if (config.memory.recompute == Recompute::Fit) return Done{};
  for (const PricedLayout& priced : found.best) {
    if (priced.layout.recompute != Recompute::None) space.like.push_back(priced.layout);
  }
  if (space.like.empty()) return Done{};
  config.memory.recompute = Recompute::Fit;
  space.meshes = meshes_among(found.best);
  space.names_remedy = false;
  const Result<LayoutSearch> fitting = search_layout(config, host, hardware, space, num_best);
  // Fit recomputes only values of layers. A layout may need full recomputation to fit.
  if (!fitting.ok() && fitting.error().kind == ErrorKind::Infeasible) return Done{};
  if (!fitting.ok()) return fitting.error();
  found.num_simulated += fitting->num_simulated;
  const std::vector<PricedLayout> others = found.best;
  for (const PricedLayout& priced : fitting->best) {
    if (is_faster_than_all_like(priced, others)) found.best.push_back(priced);
  }
  sort_and_cut(found.best, size_t(num_best));
  return Done{};
}

}  // namespace

Result<LayoutSearch> search_layout(const RunConfig& config, const HostFacts& host,
                                   const Hardware& hardware, int num_ranks, int num_best) {
  num_best = std::max(num_best, 1);
  const LayoutSpace space = all_layouts(num_ranks, config, hardware);
  TRIREME_TRY(found, search_layout(config, host, hardware, space, num_best));
  TRIREME_TRY_DONE(search_in_other_orders(config, host, hardware, space, num_best, found));
  TRIREME_TRY_DONE(search_with_fit(config, host, hardware, space, num_best, found));
  return found;
}

}  // namespace trireme
