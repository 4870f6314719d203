#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// What a check for silent corruption has found (docs/silent_corruption.md). It is the same on all
// ranks.
struct CorruptionAlarm {
  struct NamedRank {
    int rank = 0;
    std::string host;
    bool operator==(const NamedRank&) const = default;
  };

  std::string check;  // "state", "replay", "replay_elsewhere" or "products"
  int64_t step = 0;
  std::vector<NamedRank> ranks;  // empty: nothing tells which rank was wrong
  bool is_certain = false;       // false: at least one of `ranks` was wrong, maybe not all
};

}  // namespace trireme
