// This file follows the calls to a server of the log, from the callers who wait to the entries that
// answer them.

#include <chrono>
#include <utility>

#include "raft/raft_server.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

Error unknown_fate(const std::string& why) {
  return {ErrorKind::Runtime, why + ", so it is not known whether the command takes effect"};
}

}  // namespace

// ---- Callers ----

Result<AppliedAnswer> RaftServer::apply(const std::string& command, Deadline deadline) {
  if (int64_t(command.size()) > kMostCommandBytes) {
    return usage("a command has " + std::to_string(command.size()) +
                 " bytes; the log takes up to " + std::to_string(kMostCommandBytes));
  }
  return do_call(CallKind::Command, command, deadline);
}

Result<AppliedAnswer> RaftServer::query(const std::string& question, Deadline deadline) {
  return do_call(CallKind::Question, question, deadline);
}

Result<AppliedAnswer> RaftServer::change_members(const LogMembers& members, Deadline deadline) {
  return do_call(CallKind::Members, encode_members(members), deadline);
}

Result<AppliedAnswer> RaftServer::do_call(CallKind kind, const std::string& bytes,
                                          Deadline deadline) {
  const SharedCall call = std::make_shared<Call>();
  call->kind = kind;
  call->bytes = bytes;
  std::unique_lock lock(mutex_);
  if (broken_) return *broken_;
  new_calls_.push_back(call);
  has_input_.notify_one();
  ++num_calls_;
  const Clock::time_point end{std::chrono::nanoseconds(deadline.at_ns)};
  has_answer_.wait_until(lock, end, [&] { return call->answer.has_value(); });
  --num_calls_;
  if (is_stopping_) has_answer_.notify_all();  // the destructor waits
  if (call->answer) return *call->answer;
  const std::string why = "no majority of the servers has answered before the deadline";
  if (kind == CallKind::Question) return Error{ErrorKind::Runtime, why};
  return unknown_fate(why);
}

// ---- The thread that runs the core ----

void RaftServer::begin_calls() {
  while (!waiting_.empty() && begin(waiting_.front())) waiting_.pop_front();
}

bool RaftServer::begin(const SharedCall& call) {
  if (!core_.is_leader()) {
    answer_not_leader(call);
  } else if (call->kind == CallKind::Question) {
    core_.read(++next_read_);
    questions_[next_read_] = call;
  } else {
    std::optional<RaftProposal> proposal;
    if (call->kind == CallKind::Command) {
      proposal = core_.propose(call->bytes);
      if (!proposal) return false;  // too many wait
    } else {
      Result<LogMembers> members = decode_members(call->bytes);
      Result<RaftProposal> proposed =
          members ? core_.propose_members(*members) : Result<RaftProposal>(members.error());
      if (!proposed) {
        answer(call, proposed.error());
        return true;
      }
      proposal = *proposed;
    }
    call->index = proposal->index;
    call->term = proposal->term;
    SharedCall& of_index = commands_[proposal->index];
    // This is a command of an earlier term. Another server may still have it.
    if (of_index != nullptr) answer(of_index, unknown_fate("another server has led meanwhile"));
    of_index = call;
  }
  return true;
}

Status RaftServer::apply_entries(const RaftOutput& output) {
  if (output.restore != nullptr) {
    TRIREME_TRY_DONE(machine_.restore(output.restore->state));
    applied_ = snapshot_index_ = output.restore->index;
    while (!commands_.empty() && commands_.begin()->first <= applied_) {
      answer(commands_.begin()->second, unknown_fate("another server leads now"));
      commands_.erase(commands_.begin());
    }
  }
  for (const LogEntry& entry : output.apply) {
    std::string bytes;
    if (entry.kind == EntryKind::Command) bytes = machine_.apply(entry.bytes);
    applied_ = entry.index;
    const auto found = commands_.find(entry.index);
    if (found == commands_.end()) continue;
    if (found->second->term == entry.term) {
      answer(found->second,
             AppliedAnswer{.is_leader = true, .leader = "", .bytes = std::move(bytes)});
    } else {
      answer_not_leader(found->second);  // another entry took its place, so it has no effect
    }
    commands_.erase(found);
  }
  return Done{};
}

void RaftServer::answer_questions(const std::vector<RaftRead>& reads) {
  for (const RaftRead& read : reads) {
    const auto found = questions_.find(read.id);
    if (found == questions_.end()) continue;
    if (read.index < 0) {
      answer_not_leader(found->second);
    } else {
      confirmed_.emplace(read.index, found->second);
    }
    questions_.erase(found);
  }
  while (!confirmed_.empty() && confirmed_.begin()->first <= applied_) {
    const SharedCall call = confirmed_.begin()->second;
    confirmed_.erase(confirmed_.begin());
    answer(call,
           AppliedAnswer{.is_leader = true, .leader = "", .bytes = machine_.query(call->bytes)});
  }
}

void RaftServer::answer(const SharedCall& call, Result<AppliedAnswer> answer) {
  const std::lock_guard lock(mutex_);
  call->answer = std::move(answer);
  has_answer_.notify_all();
}

void RaftServer::answer_not_leader(const SharedCall& call) {
  const ServerId leader = core_.is_leader() ? 0 : core_.leader();
  answer(call, AppliedAnswer{.is_leader = false, .leader = address_of(leader), .bytes = ""});
}

void RaftServer::fail(const Error& error) {
  std::unique_lock lock(mutex_);
  if (options_.log && !is_stopping_) {
    lock.unlock();
    options_.log(error.message);
    lock.lock();
  }
  broken_ = error;
  const auto end = [&](const SharedCall& call) {
    if (!call->answer) call->answer = Result<AppliedAnswer>(error);
  };
  for (const SharedCall& call : new_calls_) end(call);
  for (const SharedCall& call : waiting_) end(call);
  for (const auto* calls : {&commands_, &questions_}) {
    for (const auto& [key, call] : *calls) end(call);
  }
  for (const auto& [key, call] : confirmed_) end(call);
  new_calls_.clear();
  waiting_.clear();
  commands_.clear();
  questions_.clear();
  confirmed_.clear();
  has_answer_.notify_all();
}

}  // namespace trireme
