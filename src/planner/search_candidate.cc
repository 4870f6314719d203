#include "planner/search_candidate.h"

namespace trireme {

bool comes_after(const Candidate& a, const Candidate& b) {
  return std::tie(a.least_s, a.index, a.offload) > std::tie(b.least_s, b.index, b.offload);
}

SimulatedKey simulated_key(const LayoutChoice& layout, uint64_t again) {
  const Mesh& mesh = layout.mesh;
  return {mesh.tp,          mesh.cp,         mesh.pp,
          mesh.dp,          mesh.ep,         mesh.order,
          layout.schedule,  layout.chunks,   layout.micro_sequences,
          layout.recompute, layout.exchange, again};
}

Simulated summary_of(const Simulation& simulation) {
  Simulated summary{simulation.makespan_s, {}};
  for (const RankSimulation& rank : simulation.ranks)
    summary.saved_bytes.push_back(rank.peak_bytes);
  return summary;
}

}  // namespace trireme
