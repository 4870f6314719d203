#include <utility>

#include "raft/raft_core.h"

namespace trireme {

bool RaftCore::follows_live_leader(double now_s) const {
  if (role_ == Role::Leader) return true;  // check_quorum() ends it
  return leader_ != 0 && now_s < heard_leader_s_ + options_.election_s;
}

// A leader must have every committed entry. A majority has them, and each of these votes only for
// a log that ends no earlier than its own.
bool RaftCore::is_up_to_date(const Message& message) const {
  return std::pair(message.log_term, message.index) >=
         std::pair(log_.last_term(), log_.last_index());
}

void RaftCore::ask_for_votes(Message::Kind kind, int64_t term) {
  for (const LogMember& member : log_.members().servers) {
    if (member.id == options_.id) continue;
    Message message = message_to(member.id, kind);
    message.term = term;
    message.index = log_.last_index();
    message.log_term = log_.last_term();
    if (kind == Message::Kind::Vote) {
      send_once_written(std::move(message));
    } else {
      send(std::move(message));
    }
  }
}

// Asks before it raises the term, so that a server that was cut off does not disturb the others.
void RaftCore::start_pre_vote() {
  // No election follows the last possible term. Only a broken server sends that term.
  if (term() >= kMostMessageNumber) return;
  role_ = Role::PreCandidate;
  leader_ = 0;
  votes_.clear();
  ask_for_votes(Message::Kind::PreVote, term() + 1);
  add_vote(options_.id);
}

void RaftCore::start_election() {
  role_ = Role::Candidate;
  votes_.clear();
  set_vote({term() + 1, options_.id});
  // Its own vote counts once it is on the disk, like every other one.
  self_vote_number_ = write_number();
  ask_for_votes(Message::Kind::Vote, term());
}

void RaftCore::add_vote(ServerId from) {
  const LogMembers& members = log_.members();
  if (members.has(from)) votes_.insert(from);
  if (votes_.size() < members.majority()) return;
  if (role_ == Role::PreCandidate) {
    start_election();
  } else {
    become_leader();
  }
}

void RaftCore::on_pre_vote(const Message& message, double now_s) {
  Message reply = message_to(message.from, Message::Kind::PreVoteReply);
  reply.is_granted = message.term > term() && is_up_to_date(message) && !follows_live_leader(now_s);
  if (reply.is_granted) reply.term = message.term;
  send(std::move(reply));
}

void RaftCore::on_vote(const Message& message, double now_s) {
  Message reply = message_to(message.from, Message::Kind::VoteReply);
  const bool is_free = vote_.candidate == 0 || vote_.candidate == message.from;
  if (!is_free || !is_up_to_date(message)) return send(std::move(reply));
  if (vote_.candidate == 0) set_vote({term(), message.from});
  wait_for_election(now_s);
  reply.is_granted = true;
  send_once_written(std::move(reply));
}

void RaftCore::on_vote_reply(const Message& message) {
  if (!message.is_granted) return;
  const bool is_pre_vote = message.kind == Message::Kind::PreVoteReply;
  const Role asked = is_pre_vote ? Role::PreCandidate : Role::Candidate;
  const int64_t asked_term = is_pre_vote ? term() + 1 : term();
  if (role_ == asked && message.term == asked_term) add_vote(message.from);
}

}  // namespace trireme
