#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// The check for silent corruption that has found something (docs/silent_corruption.md).
enum class CorruptionCheck : uint8_t { State, Replay, ReplayElsewhere, Products };
// Returns the name in records: "state", "replay", "replay_elsewhere" or "products".
std::string_view name_of(CorruptionCheck check);
// Returns nullopt if no check has this name.
std::optional<CorruptionCheck> corruption_check_of(std::string_view name);

// This is what such a check has found. It is the same on all ranks.
struct CorruptionAlarm {
  struct NamedRank {
    int rank = 0;
    std::string host;
    bool operator==(const NamedRank&) const = default;
  };

  CorruptionCheck check = CorruptionCheck::State;
  int64_t step = 0;
  std::vector<NamedRank> ranks;  // empty: nothing tells which rank was wrong
  bool is_certain = false;       // false: at least one of `ranks` was wrong, maybe not all
  // Checkpoints of later steps than this one may hold wrong results. Absent: the newest checkpoint
  // is older than the damage, or nobody knows.
  std::optional<int64_t> clean_step = std::nullopt;
};

// Records and messages list at most so many of the ranks of an alarm.
inline constexpr size_t kMostNamedRanks = 8;
// Returns those that are listed. The first rank of every host comes first.
std::vector<CorruptionAlarm::NamedRank> listed_ranks(const CorruptionAlarm& alarm);
// Returns them as text: "rank 1 on host b or rank 0 on host a", with "and" if all of them were
// wrong.
std::string named_ranks_text(const CorruptionAlarm& alarm);
// The hosts of all ranks of the alarm, each once.
std::vector<std::string> hosts_named_by(const CorruptionAlarm& alarm);

}  // namespace trireme
