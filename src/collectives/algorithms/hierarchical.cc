#include <algorithm>

#include "collectives/algorithms/algorithms.h"

namespace trireme::algorithms {
namespace {

// Returns the ranks of every node. Nodes are ordered by their first rank.
std::vector<std::vector<int>> nodes_of(const PlanRequest& request) {
  std::vector<int> names;
  std::vector<std::vector<int>> nodes;
  for (int rank = 0; rank < request.size; ++rank) {
    const int name = request.node_of.empty() ? 0 : request.node_of[rank];
    const auto found = std::find(names.begin(), names.end(), name);
    const size_t node = size_t(found - names.begin());
    if (found == names.end()) {
      names.push_back(name);
      nodes.emplace_back();
    }
    nodes[node].push_back(rank);
  }
  return nodes;
}

}  // namespace

// G nodes of L' ranks each: ring reduce-scatter in the node, ring all-reduce of the shard across
// nodes, ring all-gather in the node. 2(L'-1) + 2(G-1) rounds; if sizes divide evenly it sends
// 2M(N-1)/N, of which 2(M/L')(G-1)/G across nodes. Nodes of unequal size: binomial reduce to each
// node's first rank, ring of these ranks, binomial broadcast. 2 ceil(log2 L') + 2(G-1) rounds, with
// L' of the largest node.
int hierarchical_all_reduce(CommPlan& plan, const PlanRequest& request) {
  const Piece whole{Memory::Out, 0, request.count};
  const std::vector<std::vector<int>> nodes = nodes_of(request);
  size_t node = 0;
  size_t largest = 0;
  bool equal = true;
  Members inside;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto found = std::find(nodes[i].begin(), nodes[i].end(), request.rank);
    if (found != nodes[i].end()) {
      node = i;
      inside = {.ranks = nodes[i], .me = static_cast<int>(found - nodes[i].begin())};
    }
    equal = equal && nodes[i].size() == nodes[0].size();
    largest = std::max(largest, nodes[i].size());
  }
  const int place = equal ? inside.me : 0;  // these ranks of every node form the ring across nodes
  Members across{.ranks = {}, .me = static_cast<int>(node)};
  for (const std::vector<int>& ranks : nodes) across.ranks.push_back(ranks[place]);

  int round = 0;
  if (equal) {
    const std::vector<Piece> chunks = balanced_pieces(whole, inside.size());
    round += ring_reduce_scatter_in_place(plan, round, inside, chunks);
    const std::vector<Piece> shard =
        balanced_pieces(chunks[inside.index(inside.me + 1)], across.size());
    round += ring_reduce_scatter_in_place(plan, round, across, shard);
    round += ring_all_gather_in_place(plan, round, across, shard, 1);
    round += ring_all_gather_in_place(plan, round, inside, chunks, 1);
    return round;
  }
  int levels = 0;
  while ((size_t{1} << levels) < largest) ++levels;
  tree_reduce_in_place(plan, 0, inside, whole);
  round = levels;
  if (inside.me == 0) {
    const std::vector<Piece> chunks = balanced_pieces(whole, across.size());
    ring_reduce_scatter_in_place(plan, round, across, chunks);
    ring_all_gather_in_place(plan, round + across.size() - 1, across, chunks, 1);
  }
  round += 2 * (across.size() - 1);
  tree_broadcast(plan, round, inside, whole);
  return round + levels;
}

}  // namespace trireme::algorithms
