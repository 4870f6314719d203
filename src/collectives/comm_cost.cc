#include "collectives/comm_cost.h"

namespace trireme {
namespace {

LinkCost link_cost_of(const LinkTier& tier, const LinkCost& usual) {
  const double bytes_per_s = tier.bytes_per_s();
  return bytes_per_s > 0.0 ? LinkCost{tier.link.latency_s, 1.0 / bytes_per_s} : usual;
}

}  // namespace

CommCost comm_cost_of(const Hardware& hardware) {
  CommCost cost;
  if (!hardware.tiers.empty()) cost.inside = link_cost_of(hardware.tiers[0], cost.inside);
  if (hardware.tiers.size() > 1) cost.across = link_cost_of(hardware.tiers[1], cost.across);
  if (hardware.reduce_bytes_per_s > 0.0) cost.gamma_s_per_byte = 1.0 / hardware.reduce_bytes_per_s;
  return cost;
}

}  // namespace trireme
