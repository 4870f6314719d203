#include "predict/action_times.h"

namespace trireme {

ActionTimes::ActionTimes(const RankPlan& rank, const UnitPrices& prices)
    : rank_(rank), prices_(prices) {
  for (const ChunkTables& chunk : rank.chunks) {
    known_.emplace_back(size_t(num_units(chunk.stage)));
  }
}

double ActionTimes::seconds(const Action& action) {
  if (action.chunk < 0 || !computes(action.kind)) return 0.0;
  Known& known = known_[size_t(action.chunk)][size_t(action.first_unit)];
  if (known.num_units != action.num_units) {
    known = {action.num_units, prices_.of(rank_.chunks[size_t(action.chunk)].stage, action)};
  }
  return seconds_of(known.times, action.kind);
}

}  // namespace trireme
