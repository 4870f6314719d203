#include "schema/link_tier.h"

#include <algorithm>

namespace trireme {
namespace {

// Ranks of the group among `ranks` neighbouring positions that begin with a rank of the group.
int64_t members_of(RankSpan span, int64_t ranks) {
  return std::clamp<int64_t>(ranks / std::max<int64_t>(span.stride, 1), 1, span.count);
}

}  // namespace

std::vector<TierPart> parts_of(const std::vector<LinkTier>& tiers, RankSpan span) {
  std::vector<TierPart> parts;
  int64_t below = 1;
  for (size_t i = 0; i < tiers.size(); ++i) {
    const bool is_last = i + 1 == tiers.size();
    const bool has_own_size = i == 0 && span.nodes.least > 0;
    const int64_t ranks = has_own_size ? span.nodes.least : tiers[i].ranks;
    const int64_t members = is_last ? span.count : members_of(span, ranks);
    parts.push_back({&tiers[i], below, (members + below - 1) / below,
                     bytes_per_s_of_rank(tiers, i, span.nodes.most)});
    below = members;
  }
  return parts;
}

double bytes_per_s_of_rank(const std::vector<LinkTier>& tiers, size_t index,
                           int64_t ranks_of_node) {
  const LinkTier& tier = tiers[index];
  const double carried = tier.link.bytes_per_s / tier.oversubscription;
  if (tier.adapters == 0) return carried;
  int64_t ranks_below = index == 0 ? 1 : tiers[index - 1].ranks;
  if (index == 1 && ranks_of_node > 0) ranks_below = ranks_of_node;
  return carried * double(tier.adapters) / double(std::max<int64_t>(ranks_below, 1));
}

}  // namespace trireme
