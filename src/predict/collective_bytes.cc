#include "predict/collective_bytes.h"

#include "base/check.h"
#include "collectives/comm_cost.h"

namespace trireme {

bool GroupPlace::is_one_node(const NodeMap& nodes) const {
  const int64_t last = (inner.count - 1) * inner.stride + (outer.count - 1) * outer.stride + first;
  return nodes.share_node(first, last);
}

std::vector<int> GroupPlace::node_of(const NodeMap& nodes) const {
  std::vector<int> node_of_rank;
  for (int64_t j = 0; j < outer.count; ++j) {
    for (int64_t i = 0; i < inner.count; ++i) {
      node_of_rank.push_back(int(nodes.node_of(first + i * inner.stride + j * outer.stride)));
    }
  }
  return node_of_rank;
}

GroupPlace GroupPlace::normalized(const NodeMap& nodes) const {
  GroupPlace place = *this;
  if (!nodes.are_equal()) return place;
  const int64_t ranks_per_node = nodes.size_at(0);
  place.first %= ranks_per_node;
  const bool is_plain = outer.count == 1;
  if (is_plain) place.outer = {};
  if (is_plain && inner.stride % ranks_per_node == 0) place.first = 0;
  if (is_plain && ranks_per_node % inner.stride == 0) place.first -= place.first % inner.stride;
  return place;
}

int64_t first_alike(const NodeMap& nodes, const Mesh& mesh, int place) {
  return nodes.are_equal() ? 0 : position_of(mesh, {.pp = place});
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
  if (place.is_one_node(nodes_)) return shared_traffic(asked, element_bytes).sent * element_bytes;
  const auto copy = [](std::span<const int64_t> counts) {
    return std::vector<int64_t>(counts.begin(), counts.end());
  };
  const auto [entry, is_new] = chosen_.try_emplace(
      Asked{asked.collective, asked.size, asked.root, asked.count, copy(asked.counts),
            copy(asked.recv_counts), element_bytes, canonical, place.normalized(nodes_)});
  Chosen& chosen = entry->second;
  const auto known = chosen.sent.find(asked.rank);
  if (known != chosen.sent.end()) return known->second;
  if (is_new) chosen.node_of = place.node_of(nodes_);
  PlanRequest request = asked;
  request.node_of = chosen.node_of;
  if (is_new) chosen.algorithm = choose_algorithm(request, element_bytes, cost_, canonical);
  request.algorithm = chosen.algorithm;
  const int64_t bytes = sent_elements(request) * element_bytes;
  chosen.sent.emplace(asked.rank, bytes);
  return bytes;
}

}  // namespace trireme
