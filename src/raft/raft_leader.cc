#include <algorithm>
#include <functional>

#include "raft/raft_core.h"

namespace trireme {
namespace {

// Returns the highest value that a majority has reached, or -1 if there is none.
int64_t reached_by_majority(std::vector<int64_t> values, const LogMembers& members) {
  if (values.size() < members.majority()) return -1;
  std::sort(values.begin(), values.end(), std::greater<>());
  return values[members.majority() - 1];
}

}  // namespace

void RaftCore::become_leader() {
  role_ = Role::Leader;
  leader_ = options_.id;
  peers_.clear();
  votes_.clear();
  // Entries of older terms are committed only together with one of this term.
  term_start_ = log_.last_index() + 1;
  append({.index = term_start_, .term = term(), .kind = EntryKind::Nothing, .bytes = ""});
  heartbeat_at_s_ = now_s_;
  quorum_at_s_ = now_s_ + options_.election_s;
  update_peers(now_s_);
}

void RaftCore::update_peers(double now_s) {
  const LogMembers& members = log_.members();
  std::erase_if(peers_, [&](const auto& peer) { return !members.has(peer.first); });
  for (const LogMember& member : members.servers) {
    if (member.id == options_.id || peers_.contains(member.id)) continue;
    peers_[member.id] = {.next = term_start_, .heard_s = now_s};
  }
}

// A leader that hears no majority steps down, so that its clients look for another one.
void RaftCore::check_quorum(double now_s) {
  if (now_s < quorum_at_s_) return;
  quorum_at_s_ = now_s + options_.election_s;
  size_t num_heard = log_.members().has(options_.id) ? 1 : 0;
  for (const auto& [id, peer] : peers_) {
    if (peer.heard_s >= now_s - options_.election_s) ++num_heard;
  }
  if (num_heard < log_.members().majority()) become_follower(term(), 0);
}

std::optional<RaftProposal> RaftCore::propose(std::string command) {
  if (role_ != Role::Leader) return std::nullopt;
  if (log_.last_index() - commit_ >= options_.entries_not_committed) return std::nullopt;
  const int64_t index = log_.last_index() + 1;
  append({.index = index, .term = term(), .kind = EntryKind::Command, .bytes = std::move(command)});
  return RaftProposal{index, term()};
}

Result<RaftProposal> RaftCore::propose_members(const LogMembers& members) {
  if (role_ != Role::Leader) return Error{ErrorKind::Runtime, "this server does not lead"};
  // Without an entry of this term, a change of an older leader may not be known here.
  if (commit_ < term_start_ || log_.members_index() > commit_) {
    return Error{ErrorKind::Runtime, "another change of the servers is under way; try again"};
  }
  if (members.servers.empty() || !members.is_one_step_from(log_.members())) {
    return usage("add, remove or move one server at a time");
  }
  const int64_t index = log_.last_index() + 1;
  append({.index = index,
          .term = term(),
          .kind = EntryKind::Members,
          .bytes = encode_members(members)});
  update_peers(now_s_);
  return RaftProposal{index, term()};
}

bool RaftCore::read(int64_t id) {
  if (role_ != Role::Leader) return false;
  // Everything that older leaders have committed comes before the first entry of this term.
  waiting_reads_.push_back({id, std::max(commit_, term_start_), 0});
  return true;
}

// ---- Sending ----

void RaftCore::send_to_peers(double now_s) {
  bool is_heartbeat = now_s >= heartbeat_at_s_;
  if (!waiting_reads_.empty() && waiting_reads_.back().round == 0) {
    ++round_;
    for (WaitingRead& read : waiting_reads_) {
      if (read.round == 0) read.round = round_;
    }
    is_heartbeat = true;
  }
  if (is_heartbeat) heartbeat_at_s_ = now_s + options_.heartbeat_s;
  for (auto& [id, peer] : peers_) {
    if (is_heartbeat) peer.waits = false;
    send_entries(id, peer, is_heartbeat, now_s);
  }
  update_reads();  // a server without peers
}

void RaftCore::send_entries(ServerId id, Peer& peer, bool is_heartbeat, double now_s) {
  if (peer.next < log_.first_index()) {
    if (now_s >= peer.snapshot_at_s) return send_snapshot(id, peer, now_s);
    if (!is_heartbeat) return;
  }
  const int64_t next = std::max(peer.next, log_.first_index());
  const bool has_entries = next <= log_.last_index() && next == peer.next &&
                           next - peer.match <= options_.entries_in_flight;
  const bool may_send = !(peer.is_probing && peer.waits);
  if (!is_heartbeat && !(has_entries && may_send)) return;
  Message message = message_to(id, Message::Kind::Append);
  message.index = next - 1;
  message.log_term = log_.term_at(next - 1);
  message.commit = commit_;
  message.round = round_;
  if (has_entries) {
    message.entries = log_.slice(next, log_.last_index(), options_.append_bytes);
  }
  if (peer.is_probing) {
    peer.waits = true;
  } else {
    peer.next += int64_t(message.entries.size());
  }
  send(std::move(message));
}

void RaftCore::send_snapshot(ServerId id, Peer& peer, double now_s) {
  peer.snapshot_at_s = now_s + 4 * options_.election_s;
  Message message = message_to(id, Message::Kind::Snapshot);
  message.snapshot = snapshot_;
  message.index = snapshot_->index;
  message.log_term = snapshot_->term;
  message.round = round_;
  send(std::move(message));
}

// ---- Answers ----

void RaftCore::on_append_reply(const Message& message, double now_s) {
  const auto found = peers_.find(message.from);
  if (role_ != Role::Leader || found == peers_.end()) return;
  if (message.index > log_.last_index()) return;  // no server of this log answers so
  Peer& peer = found->second;
  peer.heard_s = now_s;
  peer.round = std::max(peer.round, message.round);
  if (message.is_granted) {
    peer.match = std::max(peer.match, message.index);
    peer.next = std::max(peer.next, peer.match + 1);
    peer.is_probing = peer.waits = false;
    update_commit();
  } else {
    go_back(peer, message);
  }
  if (role_ == Role::Leader) update_reads();
}

void RaftCore::go_back(Peer& peer, const Message& message) {
  if (message.index <= peer.match) return;  // an old answer
  int64_t next = message.hint;
  if (message.log_term > 0) {
    // If this log has entries of that term, the logs agree up to the last of them at most.
    int64_t last = std::min(message.index, log_.last_index());
    while (last >= log_.first_index() && log_.term_at(last) > message.log_term) --last;
    if (log_.term_at(last) == message.log_term) next = last + 1;
  }
  peer.next = std::max(peer.match + 1, std::min(next, message.index));
  peer.is_probing = true;
  peer.waits = false;
}

void RaftCore::update_commit() {
  const LogMembers& members = log_.members();
  std::vector<int64_t> written;
  if (members.has(options_.id)) written.push_back(written_index_);
  for (const auto& [id, peer] : peers_) written.push_back(peer.match);
  const int64_t index = reached_by_majority(std::move(written), members);
  // An entry of an older term may still be replaced although a majority has it (Raft, 5.4.2).
  if (index <= commit_ || log_.term_at(index) != term()) return;
  commit_ = index;
  if (log_.members_index() <= commit_ && !members.has(options_.id)) {
    become_follower(term(), 0);  // this server was removed
  }
}

// A majority has answered after the question came, so no other leader has committed before it.
void RaftCore::update_reads() {
  const LogMembers& members = log_.members();
  std::vector<int64_t> rounds;
  if (members.has(options_.id)) rounds.push_back(round_);
  for (const auto& [id, peer] : peers_) rounds.push_back(peer.round);
  const int64_t round = reached_by_majority(std::move(rounds), members);
  while (!waiting_reads_.empty() && waiting_reads_.front().round > 0 &&
         waiting_reads_.front().round <= round) {
    reads_.push_back({waiting_reads_.front().id, waiting_reads_.front().index});
    waiting_reads_.pop_front();
  }
}

}  // namespace trireme
