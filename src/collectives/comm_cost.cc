#include "collectives/comm_cost.h"

namespace trireme {
namespace {

LinkCost link_cost_of(const Hardware& hardware, size_t tier, const LinkCost& usual) {
  if (tier >= hardware.tiers.size()) return usual;
  const double bytes_per_s = bytes_per_s_of_rank(hardware.tiers, tier);
  const double latency_s = hardware.tiers[tier].link.latency_s;
  return bytes_per_s > 0.0 ? LinkCost{latency_s, 1.0 / bytes_per_s} : usual;
}

}  // namespace

CommCost comm_cost_of(const Hardware& hardware) {
  CommCost cost;
  cost.inside = link_cost_of(hardware, 0, cost.inside);
  cost.across = link_cost_of(hardware, 1, cost.across);
  if (hardware.reduce_bytes_per_s > 0.0) cost.gamma_s_per_byte = 1.0 / hardware.reduce_bytes_per_s;
  return cost;
}

}  // namespace trireme
