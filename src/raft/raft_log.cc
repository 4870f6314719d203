#include "raft/raft_log.h"

#include <utility>

#include "base/check.h"

namespace trireme {
namespace {

LogMembers members_of(std::string_view bytes) {
  Result<LogMembers> members = decode_members(bytes);
  TRIREME_CHECK(members.ok(), "members are checked when they are received");
  return std::move(*members);
}

}  // namespace

RaftLog::RaftLog(const LogSnapshot& snapshot, std::vector<LogEntry> entries) {
  reset(snapshot);
  for (LogEntry& entry : entries) append(std::move(entry));
}

int64_t RaftLog::term_at(int64_t index) const {
  if (index == base_index_) return base_term_;
  if (index < base_index_ || index > last_index()) return -1;
  return at(index).term;
}

std::vector<LogEntry> RaftLog::slice(int64_t first, int64_t last, int64_t most_bytes) const {
  std::vector<LogEntry> entries;
  int64_t bytes = 0;
  for (int64_t index = first; index <= last && bytes < most_bytes; ++index) {
    entries.push_back(at(index));
    bytes += int64_t(entries.back().bytes.size()) + int64_t(sizeof(LogEntry));
  }
  return entries;
}

void RaftLog::append(LogEntry entry) {
  TRIREME_CHECK(entry.index == last_index() + 1, "entries have no gaps");
  if (entry.kind == EntryKind::Members) {
    members_.push_back({entry.index, members_of(entry.bytes)});
  }
  entries_.push_back(std::move(entry));
}

void RaftLog::remove_from(int64_t index) {
  while (last_index() >= index) entries_.pop_back();
  while (members_.size() > 1 && members_.back().index >= index) members_.pop_back();
}

void RaftLog::remove_to(int64_t index) {
  if (index <= base_index_) return;
  base_term_ = term_at(index);
  entries_.erase(entries_.begin(), entries_.begin() + (index - base_index_));
  base_index_ = index;
  while (members_.size() > 1 && members_[1].index <= index) members_.erase(members_.begin());
}

void RaftLog::reset(const LogSnapshot& snapshot) {
  base_index_ = snapshot.index;
  base_term_ = snapshot.term;
  entries_.clear();
  members_ = {{snapshot.index, members_of(snapshot.members)}};
}

const LogMembers& RaftLog::members_at(int64_t index) const {
  size_t found = 0;
  while (found + 1 < members_.size() && members_[found + 1].index <= index) ++found;
  return members_[found].members;
}

}  // namespace trireme
