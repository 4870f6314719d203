#include "planner/near_ties.h"

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

std::pair<int64_t, int> cost_of(const PricedLayout& priced) {
  const Mesh& mesh = priced.layout.mesh;
  return {priced.arena_bytes, mesh.tp * mesh.cp * mesh.pp};
}

}  // namespace

void order_near_ties(std::vector<PricedLayout>& layouts) {
  for (auto first = layouts.begin(); first != layouts.end();) {
    const double most_s = first->time.step * (1.0 + kNearTie);
    const auto end = std::find_if(
        first, layouts.end(), [&](const PricedLayout& other) { return other.time.step > most_s; });
    std::stable_sort(first, end, [](const PricedLayout& a, const PricedLayout& b) {
      return cost_of(a) < cost_of(b);
    });
    first = end;
  }
}

}  // namespace trireme
