#include "planner/near_ties.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

PricedLayout priced(double step_s, int64_t arena_bytes, const Mesh& mesh) {
  PricedLayout layout;
  layout.layout.mesh = mesh;
  layout.time.step = step_s;
  layout.arena_bytes = arena_bytes;
  return layout;
}

TEST(NearTies, AreBrokenByMemoryThenByDegreesAndNothingElseMoves) {
  const Mesh tp{2, 1, 1, 1, 1}, dp{1, 1, 1, 2, 1};
  std::vector<PricedLayout> layouts = {priced(1.0, 300, tp),  priced(1.001, 200, tp),
                                       priced(1.02, 200, dp), priced(1.021, 100, dp),
                                       priced(1.04, 50, tp),  priced(1.1, 10, dp)};
  const std::vector<PricedLayout> sorted = layouts;
  order_near_ties(layouts);
  const size_t order[] = {2, 1, 0, 4, 3, 5};
  for (size_t i = 0; i < layouts.size(); ++i) {
    EXPECT_EQ(layouts[i].time.step, sorted[order[i]].time.step) << i;
  }
}

}  // namespace
}  // namespace trireme
