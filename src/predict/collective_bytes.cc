#include "predict/collective_bytes.h"

#include "base/check.h"
#include "collectives/comm_cost.h"

namespace trireme {

bool GroupPlace::is_one_node() const {
  const int64_t last = (inner.count - 1) * inner.stride + (outer.count - 1) * outer.stride + first;
  return first / ranks_per_node == last / ranks_per_node;
}

std::vector<int> GroupPlace::node_of() const {
  std::vector<int> nodes;
  for (int64_t j = 0; j < outer.count; ++j) {
    for (int64_t i = 0; i < inner.count; ++i) {
      nodes.push_back(int((first + i * inner.stride + j * outer.stride) / ranks_per_node));
    }
  }
  return nodes;
}

GroupPlace GroupPlace::normalized() const {
  GroupPlace place = *this;
  place.first %= ranks_per_node;
  const bool is_plain = outer.count == 1;
  if (is_plain) place.outer = {};
  if (is_plain && inner.stride % ranks_per_node == 0) place.first = 0;
  if (is_plain && ranks_per_node % inner.stride == 0) place.first -= place.first % inner.stride;
  return place;
}

CommCost comm_cost(const RunPlan& plan) {
  return plan.hardware ? comm_cost_of(*plan.hardware) : CommCost{};
}

const StageMoves& CollectiveBytes::moves(const ModelSpec& model, const StageSpec& stage,
                                         const StageShape& shape) {
  // Most of a search's stages are asked for twice, one after the other.
  constexpr size_t kMostMoves = 64;
  const auto known = moves_.find({stage, shape});
  if (known != moves_.end()) return known->second;
  if (moves_.size() == kMostMoves) moves_.clear();
  return moves_.emplace(std::pair(stage, shape), stage_moves(model, stage, shape)).first->second;
}

int64_t CollectiveBytes::sent(const PlanRequest& asked, const GroupPlace& place,
                              int64_t element_bytes, bool canonical) {
  TRIREME_CHECK(asked.size == place.inner.count * place.outer.count, "every rank has a place");
  if (place.is_one_node()) return shared_traffic(asked, element_bytes).sent * element_bytes;
  const auto copy = [](std::span<const int64_t> counts) {
    return std::vector<int64_t>(counts.begin(), counts.end());
  };
  const auto [entry, is_new] = chosen_.try_emplace(
      Asked{asked.collective, asked.size, asked.root, asked.count, copy(asked.counts),
            copy(asked.recv_counts), element_bytes, canonical, place.normalized()});
  Chosen& chosen = entry->second;
  const auto known = chosen.sent.find(asked.rank);
  if (known != chosen.sent.end()) return known->second;
  if (is_new) chosen.node_of = place.node_of();
  PlanRequest request = asked;
  request.node_of = chosen.node_of;
  if (is_new) chosen.algorithm = choose_algorithm(request, element_bytes, cost_, canonical);
  request.algorithm = chosen.algorithm;
  const int64_t bytes = sent_elements(request) * element_bytes;
  chosen.sent.emplace(asked.rank, bytes);
  return bytes;
}

}  // namespace trireme
