#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// The fewest and the most ranks of the nodes on which some ranks lie.
struct NodeSizes {
  int64_t least = 0, most = 0;  // 0: all nodes are equal, and the innermost tier has their size

  friend auto operator<=>(const NodeSizes&, const NodeSizes&) = default;
};

// Which rank lies on which node. Ranks are counted node by node. Neighbouring nodes of one size are
// a part of the cluster.
class NodeMap {
 public:
  // All nodes have so many ranks; 0: one node has all ranks. A number stands for such nodes.
  NodeMap(int64_t ranks_per_node = 0);  // NOLINT(google-explicit-constructor)
  // From `first_rank` on, nodes have so many ranks. Calls come by rising first ranks, and each
  // begins a node. A later call takes the place of one with the same first rank.
  void begin_part(int64_t first_rank, int64_t ranks_per_node);

  bool are_equal() const { return parts_.size() == 1; }
  int64_t node_of(int64_t rank) const;
  bool share_node(int64_t a, int64_t b) const { return node_of(a) == node_of(b); }
  // Ranks of the node of this rank.
  int64_t size_at(int64_t rank) const { return part_of(rank).ranks_per_node; }
  // The first rank of the part of this rank; 0 if all nodes are equal.
  int64_t first_of_part(int64_t rank) const { return part_of(rank).first_rank; }
  // Returns the sizes of the nodes on which the ranks from `first` to `last` lie; zeros if all
  // nodes of the cluster are equal.
  NodeSizes sizes(int64_t first, int64_t last) const;
  // The sizes of the nodes of a run of so many ranks, rising.
  std::vector<int64_t> sizes_of_run(int64_t num_ranks) const;
  // Every node of such a run has at least so many ranks, except the last one.
  int least_size(int64_t num_ranks) const { return int(sizes_of_run(num_ranks).front()); }
  // Returns "" if all nodes are equal, else ", nodes of 8 ranks" for those of these ranks.
  std::string text(int64_t first, int64_t last) const;
  // The first ranks of the nodes of such a run.
  std::vector<int64_t> first_ranks(int64_t num_ranks) const;

 private:
  struct Part {
    int64_t first_rank = 0;
    int64_t ranks_per_node = 1;
    int64_t first_node = 0;
  };
  const Part& part_of(int64_t rank) const;

  std::vector<Part> parts_;  // the first one begins at rank 0
};

}  // namespace trireme
