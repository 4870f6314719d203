#include "sim/stage_links.h"

#include <algorithm>
#include <map>
#include <utility>

namespace trireme {

StageLinks::StageLinks(const Schedule& schedule, const StageGraph& graph, const Costs& costs)
    : num_chunks_(schedule.num_chunks), message_bytes_(costs.message_bytes) {
  std::map<std::pair<int, int>, size_t> found;
  const auto link_to = [&](int rank, StagePlace to) -> size_t {
    if (!to.exists() || to.rank == rank) return SIZE_MAX;
    const auto [entry, is_new] = found.try_emplace({rank, to.rank}, traffic_.size());
    if (is_new) {
      traffic_.push_back({.from = rank, .to = to.rank});
      models_.push_back(costs.link_of ? costs.link_of(rank, to.rank) : costs.link);
    }
    return entry->second;
  };
  for (int rank = 0; rank < schedule.num_ranks; ++rank) {
    for (int chunk = 0; chunk < schedule.num_chunks; ++chunk) {
      to_next_.push_back(link_to(rank, graph.next(rank, chunk)));
      to_previous_.push_back(link_to(rank, graph.previous(rank, chunk)));
    }
  }
  free_s_.resize(traffic_.size());
}

double StageLinks::deliver(int rank, int chunk, bool is_activation, double ready_s) {
  const size_t i = static_cast<size_t>(rank) * num_chunks_ + chunk;
  const size_t link = is_activation ? to_next_[i] : to_previous_[i];
  const Link& model = models_[link];
  const double wire_s = model.bytes_per_s > 0 ? message_bytes_ / model.bytes_per_s : 0;
  const double start = std::max(ready_s, free_s_[link]);
  if (wire_s > 0) free_s_[link] = start + wire_s;
  LinkTraffic& traffic = traffic_[link];
  ++traffic.messages;
  traffic.bytes += message_bytes_;
  traffic.busy_s += wire_s;
  return start + wire_s + model.latency_s;
}

std::vector<LinkTraffic> StageLinks::used() const {
  std::vector<LinkTraffic> used;
  for (const LinkTraffic& link : traffic_) {
    if (link.messages > 0) used.push_back(link);
  }
  return used;
}

}  // namespace trireme
