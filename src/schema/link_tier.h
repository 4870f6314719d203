#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

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
  bool is_torus = false;          // neighbours are joined directly, in rings, without a switch
  bool sums_in_switch = false;    // the switch adds what the ranks send, so each byte is sent once

  double bytes_per_s() const { return link.bytes_per_s / oversubscription; }
  friend bool operator==(const LinkTier&, const LinkTier&) = default;
};

// Ranks of one group along an axis of the mesh: `count` of them, `stride` positions apart.
struct RankSpan {
  int64_t count = 1;
  int64_t stride = 1;

  friend auto operator<=>(const RankSpan&, const RankSpan&) = default;
};

// How a group lies in the tiers: for each tier, how many ranks of the group are below one of its
// links to the next tier, and how many such parts the tier joins.
struct TierPart {
  const LinkTier* tier = nullptr;
  int64_t below = 1;  // ranks of the group in one part that this tier joins
  int64_t parts = 1;  // of the group, that this tier joins
};
std::vector<TierPart> parts_of(const std::vector<LinkTier>& tiers, RankSpan span);

}  // namespace trireme
