#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

// The bytes that the disk of a server of a CommandLog holds. docs/raft.md has the layout. Nothing
// here reads or writes files, so the simulator uses the same bytes.
namespace trireme {

class PackedReader;
class PackedWriter;

using ServerId = int32_t;  // from 1; 0: no server

enum class EntryKind : uint8_t {
  Command,  // bytes for the state machine
  Nothing,  // the first entry of a term
  Members,  // the servers from this entry on (members.h)
};

struct LogEntry {
  int64_t index = 0;  // from 1
  int64_t term = 0;
  EntryKind kind = EntryKind::Command;
  std::string bytes;
  friend bool operator==(const LogEntry&, const LogEntry&) = default;
};

// A server promises to vote for nobody else in this term.
struct LogVote {
  int64_t term = 0;
  ServerId candidate = 0;
  friend bool operator==(const LogVote&, const LogVote&) = default;
};

// The state after the entry `index`.
struct LogSnapshot {
  int64_t index = 0;
  int64_t term = 0;
  std::string members;  // encoded (members.h)
  std::string state;    // of the state machine
};

// A server reads this from its disk when it starts.
struct LogContents {
  LogSnapshot snapshot;
  LogVote vote;
  std::vector<LogEntry> entries;  // without gaps, from snapshot.index + 1
};

inline constexpr int64_t kMostCommandBytes = int64_t{64} << 20;

// A segment is a head and frames. A frame is written and synced at once. The entries of a frame
// replace those that have the same or a higher index.
std::string segment_head(int64_t number, int64_t base_index, int64_t base_term);
std::string frame_of(const std::optional<LogVote>& vote, std::span<const LogEntry> entries);

struct Segment {
  int64_t base_index = 0;  // a snapshot of at least this index is needed
  int64_t base_term = 0;
  LogVote vote;
  std::vector<LogEntry> entries;  // without gaps
  int64_t whole_bytes = 0;        // the rest is a frame whose write was cut off
};
// Damage is an error of kind Damaged that names `path` and the offset. A last frame that is
// incomplete is no damage: nobody was told that it is on the disk.
Result<Segment> parse_segment(std::string_view bytes, int64_t number, const std::string& path);

std::string encode_snapshot(const LogSnapshot& snapshot);
Result<LogSnapshot> parse_snapshot(std::string_view bytes, const std::string& path);

// Leaves out the entries that the snapshot has, and those that it contradicts. A gap between both
// is an error that names `path`.
Result<LogContents> join_contents(LogSnapshot snapshot, Segment segment, const std::string& path);

void encode_entry(const LogEntry& entry, PackedWriter& writer);
Result<LogEntry> decode_entry(PackedReader& reader);

}  // namespace trireme
