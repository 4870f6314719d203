#include "predict/collective_bytes.h"

#include "base/check.h"
#include "collectives/cost_model.h"

namespace trireme {

int64_t CollectiveBytes::sent(const PlanRequest& asked, int64_t element_bytes, bool canonical,
                              bool shares_memory) {
  if (shares_memory) return shared_traffic(asked, element_bytes).sent * element_bytes;
  TRIREME_CHECK(asked.node_of.empty(), "requests with node_of are not supported");
  const auto copy = [](std::span<const int64_t> counts) {
    return std::vector<int64_t>(counts.begin(), counts.end());
  };
  const auto [chosen, is_new] = chosen_.try_emplace(
      Asked{asked.collective, asked.size, asked.root, asked.count, copy(asked.counts),
            copy(asked.recv_counts), element_bytes, canonical});
  PlanRequest request = asked;
  if (is_new) {
    chosen->second.algorithm = choose_algorithm(request, element_bytes, CommCost{}, canonical);
  }
  const auto [cached, is_new_rank] = chosen->second.sent.try_emplace(request.rank, 0);
  if (is_new_rank) {
    request.algorithm = chosen->second.algorithm;
    cached->second = sent_elements(request) * element_bytes;
  }
  return cached->second;
}

}  // namespace trireme
