#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "schema/node_map.h"

namespace trireme {

// A link between ranks: a message of n bytes takes latency + n / bandwidth.
struct LinkSpec {
  double latency_s = 0.0;
  double bytes_per_s = 0.0;  // one way
  friend bool operator==(const LinkSpec&, const LinkSpec&) = default;
};

// One tier of a cluster: the links that join `ranks` neighbouring ranks, such as the ranks of a
// node or of a pod. The last tier joins all ranks, however many there are.
struct LinkTier {
  std::string name;
  int64_t ranks = 0;              // 0: all; only of the last tier
  LinkSpec link;                  // of one rank, into this tier
  double oversubscription = 1.0;  // the tier carries this factor less than the links of its ranks
  // Links of each part that the tier joins, such as the adapters of a node, which its ranks share;
  // `link` is then one of them. 0: every rank has its own.
  int64_t adapters = 0;
  bool is_ring = false;  // neighbouring parts are joined in one ring, without a switch
  // The ranks along this axis form rings; tiers with it are the axes of one torus.
  bool is_torus = false;
  bool sums_in_switch = false;  // the switch adds what the ranks send, so each byte is sent once
  double switch_share = 1.0;    // of the bandwidth that sums in the switch reach

  bool has_switch() const { return !is_ring && !is_torus; }
  friend bool operator==(const LinkTier&, const LinkTier&) = default;
};

// Ranks of one group along an axis of the mesh: `count` of them, `stride` positions apart.
struct RankSpan {
  int64_t count = 1;
  int64_t stride = 1;
  NodeSizes nodes = {};  // on which the group lies

  friend auto operator<=>(const RankSpan&, const RankSpan&) = default;
};

// How a group lies in the tiers: for each tier, how many ranks of the group are below one of its
// links to the next tier, and how many such parts the tier joins. On nodes of several sizes, every
// node has as few ranks of the group as the smallest, and a rank has as little bandwidth to other
// nodes as on the largest.
struct TierPart {
  const LinkTier* tier = nullptr;
  int64_t below = 1;         // ranks of the group in one part that this tier joins
  int64_t parts = 1;         // of the group, that this tier joins
  double bytes_per_s = 0.0;  // of one rank, while all ranks send; 0: unknown
};
std::vector<TierPart> parts_of(const std::vector<LinkTier>& tiers, RankSpan span);

// Bytes per second of one rank into the tier of this index, while all ranks send. Its node has so
// many ranks; 0: as many as the innermost tier says.
double bytes_per_s_of_rank(const std::vector<LinkTier>& tiers, size_t index,
                           int64_t ranks_of_node = 0);

}  // namespace trireme
