#include "raft/raft_core.h"

#include <algorithm>

#include "base/check.h"

namespace trireme {
namespace {

LogSnapshot with_members(LogSnapshot snapshot, const LogMembers& first_members) {
  if (snapshot.index == 0) snapshot.members = encode_members(first_members);
  return snapshot;
}

}  // namespace

RaftCore::RaftCore(RaftOptions options, LogContents contents, double now_s)
    : options_(std::move(options)),
      random_(options_.seed * 0x9E3779B97F4A7C15u + uint64_t(options_.id)),
      now_s_(now_s),
      log_(with_members(contents.snapshot, options_.first_members), std::move(contents.entries)),
      vote_(contents.vote) {
  commit_ = applied_ = contents.snapshot.index;
  unwritten_ = log_.last_index() + 1;
  issued_last_ = written_index_ = log_.last_index();
  if (contents.snapshot.index > 0) {
    snapshot_ = std::make_shared<const LogSnapshot>(std::move(contents.snapshot));
    restore_ = snapshot_;
  }
  wait_for_election(now_s);
}

double RaftCore::random() {  // splitmix64
  uint64_t z = (random_ += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return double((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

void RaftCore::wait_for_election(double now_s) {
  election_at_s_ = now_s + options_.election_s * (1.0 + random());
}

double RaftCore::next_tick_s() const {
  if (role_ == Role::Failed) return now_s_ + 60.0;  // nothing is due any more
  return role_ == Role::Leader ? heartbeat_at_s_ : election_at_s_;
}

void RaftCore::tick(double now_s) {
  now_s_ = now_s;
  if (role_ == Role::Failed) return;
  if (role_ == Role::Leader) {
    check_quorum(now_s);
    return;
  }
  if (now_s < election_at_s_) return;
  wait_for_election(now_s);
  if (log_.members().has(options_.id)) start_pre_vote();
}

void RaftCore::receive(const Message& message, double now_s) {
  now_s_ = now_s;
  if (role_ == Role::Failed || message.to != options_.id || message.from == options_.id) return;
  using Kind = Message::Kind;
  const bool is_from_leader = message.kind == Kind::Append || message.kind == Kind::Snapshot;
  if (message.kind == Kind::PreVote) return on_pre_vote(message, now_s);
  // A server that was removed or cut off must not depose a leader that a majority hears.
  if (message.kind == Kind::Vote && message.term > term() && follows_live_leader(now_s)) return;
  const bool is_pre_vote_won = message.kind == Kind::PreVoteReply && message.is_granted;
  if (message.term > term() && !is_pre_vote_won) {
    become_follower(message.term, is_from_leader ? message.from : 0);
  }
  if (message.term < term()) {
    // The sender learns the term from the answer.
    if (is_from_leader) send(message_to(message.from, Kind::AppendReply));
    if (message.kind == Kind::Vote) send(message_to(message.from, Kind::VoteReply));
    return;
  }
  switch (message.kind) {
    case Kind::PreVote:
      return;
    case Kind::Vote:
      return on_vote(message, now_s);
    case Kind::PreVoteReply:
    case Kind::VoteReply:
      return on_vote_reply(message);
    case Kind::Append:
      return on_append(message, now_s);
    case Kind::Snapshot:
      return on_snapshot(message, now_s);
    case Kind::AppendReply:
      return on_append_reply(message, now_s);
  }
}

void RaftCore::become_follower(int64_t term, ServerId leader) {
  if (term > vote_.term) set_vote({term, 0});
  fail_reads();
  if (role_ == Role::Leader) wait_for_election(now_s_);
  role_ = Role::Follower;
  leader_ = leader;
  peers_.clear();
  votes_.clear();
}

void RaftCore::fail_reads() {
  for (const WaitingRead& read : waiting_reads_) reads_.push_back({read.id, -1});
  waiting_reads_.clear();
}

// ---- The disk ----

int64_t RaftCore::write_number() const {
  const bool has_news = has_new_vote_ || has_new_snapshot_ || unwritten_ <= log_.last_index();
  return has_news ? issued_ + 1 : issued_;
}

void RaftCore::set_vote(LogVote vote) {
  vote_ = vote;
  has_new_vote_ = true;
}

void RaftCore::append(LogEntry entry) { log_.append(std::move(entry)); }

void RaftCore::remove_from(int64_t index) {
  TRIREME_CHECK(index > commit_, "committed entries stay");
  log_.remove_from(index);
  unwritten_ = std::min(unwritten_, index);
  issued_last_ = std::min(issued_last_, index - 1);
  written_index_ = std::min(written_index_, index - 1);
}

void RaftCore::written(int64_t number) {
  if (role_ == Role::Failed) return;
  TRIREME_CHECK(number == issued_ && done_ + 1 == issued_, "one write at a time");
  done_ = number;
  written_index_ = issued_last_;
  while (!held_.empty() && held_.front().number <= done_) {
    messages_.push_back(std::move(held_.front().message));
    held_.pop_front();
  }
  if (role_ == Role::Candidate && done_ >= self_vote_number_) add_vote(options_.id);
  if (role_ == Role::Leader) update_commit();
}

void RaftCore::disk_failed() {
  become_follower(vote_.term, 0);
  role_ = Role::Failed;
  held_.clear();
  messages_.clear();
}

void RaftCore::compact(int64_t index, std::string state) {
  const int64_t newest = snapshot_ == nullptr ? 0 : snapshot_->index;
  if (role_ == Role::Failed || index <= newest || index > applied_) return;
  snapshot_ = std::make_shared<const LogSnapshot>(
      LogSnapshot{.index = index,
                  .term = log_.term_at(index),
                  .members = encode_members(log_.members_at(index)),
                  .state = std::move(state)});
  has_new_snapshot_ = true;
  log_.remove_to(index - options_.entries_kept);
}

void RaftCore::rewrite(std::string state) {
  if (role_ == Role::Failed) return;
  compact(applied_, std::move(state));
  has_new_snapshot_ = snapshot_ != nullptr;  // also one of the same index
}

// ---- Outputs ----

RaftCore::Message RaftCore::message_to(ServerId to, Message::Kind kind) const {
  Message message;
  message.kind = kind;
  message.from = options_.id;
  message.to = to;
  message.term = vote_.term;
  return message;
}

void RaftCore::send(Message message) { messages_.push_back(std::move(message)); }

void RaftCore::send_once_written(Message message) {
  const int64_t number = write_number();
  if (number <= done_) return send(std::move(message));
  held_.push_back({number, std::move(message)});
}

RaftOutput RaftCore::take_output(double now_s) {
  now_s_ = now_s;
  RaftOutput output;
  if (role_ == Role::Leader) send_to_peers(now_s);
  if (role_ != Role::Failed) {
    take_write(output);
    take_commits(output);
  }
  output.messages = std::exchange(messages_, {});
  output.reads = std::exchange(reads_, {});
  return output;
}

void RaftCore::take_write(RaftOutput& output) {
  if (issued_ > done_ || write_number() == issued_) return;
  RaftWrite write{.number = ++issued_, .snapshot = nullptr, .vote = vote_, .entries = {}};
  int64_t first = unwritten_;
  if (has_new_snapshot_) {
    write.snapshot = snapshot_;
    first = snapshot_->index + 1;
  }
  write.entries = log_.slice(first, log_.last_index(), INT64_MAX);
  unwritten_ = log_.last_index() + 1;
  issued_last_ = log_.last_index();
  has_new_vote_ = has_new_snapshot_ = false;
  output.write = std::move(write);
}

void RaftCore::take_commits(RaftOutput& output) {
  output.restore = std::exchange(restore_, nullptr);
  if (applied_ >= commit_) return;
  output.apply = log_.slice(applied_ + 1, commit_, INT64_MAX);
  applied_ = commit_;
}

}  // namespace trireme
