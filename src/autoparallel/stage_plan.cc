#include "autoparallel/stage_plan.h"

#include <algorithm>

namespace trireme {

StagePlan stage_of(const std::vector<PlacedUnits>& units, const std::vector<const UnitWay*>& ways,
                   const StageMesh& mesh, const MeshPlacement& stream, int in_flight) {
  StagePlan plan{.first_unit = units.front().first_unit,
                 .num_ranks = mesh.num_ranks(),
                 .in_flight = in_flight,
                 .mesh = mesh,
                 .stream = stream,
                 .units = units};
  double scratch = 0.0;
  for (size_t u = 0; u < units.size(); ++u) {
    const UnitWay& way = *ways[u];
    const double count = units[u].count;
    plan.units[u].way = way;
    plan.num_units += units[u].count;
    plan.seconds += count * way.cost.seconds;
    plan.forward_s += count * way.forward_s;
    plan.step_s += count * way.step_s;
    plan.bytes += count * ChoiceLimit{.in_flight = double(in_flight)}.bytes_of(way.cost);
    scratch = std::max(scratch, way.scratch_bytes);
  }
  plan.bytes += scratch;
  return plan;
}

}  // namespace trireme
