#include "agent/place_ranks.h"

#include <algorithm>
#include <cstddef>

namespace trireme {

std::vector<int> place_ranks(std::span<const int> slots, std::span<const int> kept,
                             std::span<const int> before) {
  std::vector<int> room(slots.begin(), slots.end());
  std::vector<int> hosts(kept.begin(), kept.end());
  for (const int host : kept) {
    if (host >= 0) --room[size_t(host)];
  }
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    const int host = before[rank];
    if (hosts[rank] >= 0 || host < 0 || room[size_t(host)] <= 0) continue;
    hosts[rank] = host;
    --room[size_t(host)];
  }
  for (int& host : hosts) {
    if (host >= 0) continue;
    const auto free = std::find_if(room.begin(), room.end(), [](int n) { return n > 0; });
    if (free == room.end()) return {};
    host = int(free - room.begin());
    --*free;
  }
  return hosts;
}

}  // namespace trireme
