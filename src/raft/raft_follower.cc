#include <algorithm>

#include "raft/raft_core.h"

namespace trireme {

void RaftCore::hear_leader(const Message& message, double now_s) {
  if (role_ != Role::Follower) become_follower(term(), message.from);
  leader_ = message.from;
  heard_leader_s_ = now_s;
  wait_for_election(now_s);
}

void RaftCore::on_append(const Message& message, double now_s) {
  if (role_ == Role::Leader) return;  // two leaders of a term: the sender is no server of this log
  hear_leader(message, now_s);
  Message reply = message_to(message.from, Message::Kind::AppendReply);
  reply.round = message.round;
  if (message.index + 1 < log_.first_index()) {
    // The entry before is in the snapshot. What is committed here is in the log of every leader.
    reply.is_granted = true;
    reply.index = commit_;
    return send_once_written(std::move(reply));
  }
  if (take_entries(message)) {
    reply.is_granted = true;
    reply.index = message.index + int64_t(message.entries.size());
    commit_ = std::max(commit_, std::min(message.commit, reply.index));
    return send_once_written(std::move(reply));
  }
  // The leader may skip the whole term of the entry that does not fit.
  reply.index = message.index;
  reply.hint = std::min(message.index, log_.last_index() + 1);
  if (message.index <= log_.last_index()) {
    reply.log_term = log_.term_at(message.index);
    while (reply.hint > log_.first_index() && log_.term_at(reply.hint - 1) == reply.log_term) {
      --reply.hint;
    }
  }
  send(std::move(reply));
}

// Returns false if the entry before them is missing or has another term.
bool RaftCore::take_entries(const Message& message) {
  if (log_.term_at(message.index) != message.log_term) return false;
  for (const LogEntry& entry : message.entries) {
    const int64_t own_term = log_.term_at(entry.index);
    if (own_term == entry.term) continue;
    // Entries are removed only if they contradict: an old message must not shorten the log.
    if (own_term >= 0) remove_from(entry.index);
    append(entry);
  }
  return true;
}

void RaftCore::on_snapshot(const Message& message, double now_s) {
  if (role_ == Role::Leader) return;
  hear_leader(message, now_s);
  const LogSnapshot& snapshot = *message.snapshot;
  if (snapshot.index > commit_) {
    if (log_.term_at(snapshot.index) == snapshot.term) {
      commit_ = snapshot.index;  // all entries are here
    } else {
      snapshot_ = restore_ = message.snapshot;
      has_new_snapshot_ = true;
      log_.reset(snapshot);
      commit_ = applied_ = snapshot.index;
      unwritten_ = snapshot.index + 1;
      issued_last_ = written_index_ = std::min(issued_last_, snapshot.index);
    }
  }
  Message reply = message_to(message.from, Message::Kind::AppendReply);
  reply.round = message.round;
  reply.is_granted = true;
  reply.index = snapshot.index;
  send_once_written(std::move(reply));
}

}  // namespace trireme
