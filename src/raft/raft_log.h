#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "raft/log_format.h"
#include "raft/members.h"

namespace trireme {

// The newest entries of a server, in memory, and the members as of each of them. Entries up to
// first_index() - 1 were left out; of the last of these the term is known.
class RaftLog {
 public:
  // The members of the snapshot hold until an entry changes them.
  RaftLog(const LogSnapshot& snapshot, std::vector<LogEntry> entries);

  int64_t first_index() const { return base_index_ + 1; }
  int64_t last_index() const { return base_index_ + int64_t(entries_.size()); }
  int64_t last_term() const { return term_at(last_index()); }
  // Returns -1 if the entry is not known.
  int64_t term_at(int64_t index) const;
  const LogEntry& at(int64_t index) const { return entries_[size_t(index - base_index_ - 1)]; }
  // Returns entries from `first` on, up to `last` or until they have `most_bytes` bytes. If `last`
  // is not below `first`, there is at least one.
  std::vector<LogEntry> slice(int64_t first, int64_t last, int64_t most_bytes) const;

  void append(LogEntry entry);
  void remove_from(int64_t index);
  // Removes entries up to `index`.
  void remove_to(int64_t index);
  // Removes all entries and continues after the snapshot.
  void reset(const LogSnapshot& snapshot);

  const LogMembers& members() const { return members_.back().members; }
  int64_t members_index() const { return members_.back().index; }
  const LogMembers& members_at(int64_t index) const;

 private:
  struct MembersFrom {
    int64_t index = 0;
    LogMembers members;
  };
  int64_t base_index_ = 0;
  int64_t base_term_ = 0;
  std::deque<LogEntry> entries_;
  std::vector<MembersFrom> members_;  // rising; never empty
};

}  // namespace trireme
