#pragma once

#include <cstdint>
#include <optional>
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
  // Checkpoints of later steps than this one may hold wrong results. Absent: the newest checkpoint
  // is older than the damage, or nobody knows.
  std::optional<int64_t> clean_step = std::nullopt;
};

}  // namespace trireme
