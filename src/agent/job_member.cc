#include "agent/job_member.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <csignal>

#include "agent/agent_listener.h"
#include "agent/job_coord.h"
#include "agent/rank_epochs.h"
#include "agent/run_right.h"
#include "comm/fabric.h"

namespace trireme {
namespace {

constexpr int kMemberLookMs = 20;
constexpr double kCallShare = 1.0 / 3.0;   // share of a lease: the deadline of a Coord call
constexpr double kLateShare = 1.0 / 3.0;   // share of a lease: time for stopped ranks to end
constexpr double kProbeShare = 1.0 / 3.0;  // share of a lease: for one attempt to reach a host
constexpr double kCoordPatienceS = 1800.0;
constexpr double kLeaveS = 1.0;

double member_now_s() { return double(steady_now_ns()) * 1e-9; }
int64_t member_ns_of(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

MembershipOptions membership_options(const MemberOptions& options, const std::string& address) {
  return {.agent = options.name,
          .card = {.address = address, .slots = options.slots},
          .num_expected = options.terms.num_agents,
          .lease_s = options.terms.lease_s};
}

RankProcesses processes_of(const MemberOptions& options) {
  const JobTerms& terms = options.terms;
  return {.command = terms.command,
          .ranks = terms.ranks,
          .start_timeout_s = terms.start_timeout_s,
          .log = options.log,
          .note = options.note,
          .max_restarts = terms.max_restarts,
          .layout = options.layouts.first,
          .fitting = options.layouts.fitting,
          .leaves_lost_out = terms.leaves_lost_out,
          .skips_bad_batches = terms.skips_bad_batches,
          .host = options.host,
          .status_file = terms.run_dir + "/" + kStatusFile,
          .classify = options.classify};
}

// True if messages of this kind go only to the leader.
bool is_for_leader(MembershipMessage::Kind kind) {
  using Kind = MembershipMessage::Kind;
  return kind == Kind::Prepared || kind == Kind::Alive || kind == Kind::Failed ||
         kind == Kind::Saved;
}

}  // namespace

JobMember::JobMember(MemberOptions options, Reception reception,
                     std::vector<std::unique_ptr<RemoteHost>> visitors,
                     std::unique_ptr<Coord> coord, const TakenSignals& signals, SharedJobPage& page)
    : options_(std::move(options)),
      signals_(signals),
      page_(page),
      processes_(processes_of(options_)),
      agent_(membership_options(options_, reception.address()), {}),
      worker_(std::move(coord), options_.terms.run_dir + "/" + kCoordFolder,
              kCallShare * options_.terms.lease_s),
      reception_(std::move(reception)),
      visitors_(std::move(visitors)),
      probe_(options_.secret, kProbeShare * options_.terms.lease_s),
      link_(options_.secret),
      answered_ns_(steady_now_ns()) {
  own_.emplace(options_.name, processes_.command, page_, signals_.before());
  own_->set_memory_folder(options_.memory_folder);
  own_->set_failure_domain(options_.domain);
  own_->set_run_folder(options_.terms.run_dir, last_evidence_in(options_.terms.run_dir));
  own_->set_interface(interface_of(reception_.address()));
  for (const NamedHost& host : options_.terms.hosts) seen_[host.name] = host.slots;
}

void JobMember::wait() {
  std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0}, {worker_.fd(), POLLIN, 0}};
  own_->add_descriptors(entries);
  link_.add_descriptors(entries);
  for (const auto& visitor : visitors_) visitor->add_descriptors(entries);
  askers_.add_descriptors(entries);
  for (const auto& [name, member] : members_) member->add_descriptors(entries);
  ::poll(entries.data(), entries.size(), kMemberLookMs);
}

// The signals of the launcher are those of the user; other agents are only asked to leave.
void JobMember::take_signals() {
  while (const int signal = signals_.next()) {
    if (signal == SIGCHLD) continue;
    const bool has_nothing_to_save =
        page_->begun_ns == 0 && !leader_ && own_->living().empty() && signal != SIGUSR1;
    if (has_nothing_to_save) return stop_before_begin();
    if (options_.is_launcher) {
      ++num_signals_;
      last_signal_ = signal;
      if (leader_) leader_->ask_to_stop(signal);
      if (AgentChannel* const channel = link_.channel(); channel != nullptr) {
        channel->send({.kind = AgentMessageKind::Stop, .number = signal});
      }
    } else if (signal != SIGUSR1) {
      if (own_->is_drained()) return end_with(RanksEnd{.is_told_here = false});
      own_->drain();
      if (AgentChannel* const channel = link_.channel(); channel != nullptr) {
        channel->send({.kind = AgentMessageKind::WantsOut});
      }
    }
  }
}

void JobMember::take_answers() {
  for (CoordWorker::Answer& answer : worker_.take_answers()) {
    if (answer.result.ok()) answered_ns_ = steady_now_ns();
    if (answer.result.ok() == is_coord_lost_) {
      is_coord_lost_ = !answer.result.ok();
      say(is_coord_lost_ ? answer.result.error().message : "the Coord answers again");
    }
    if (answer.fenced_epoch > 0) {
      if (answer.result.ok()) {
        follow(agent_.on_fence_raised(member_now_s(), answer.fenced_epoch));
      }
      continue;
    }
    if (answer.result.ok() && answer.call.kind == CoordCall::Kind::List) {
      if (auto end = end_in(answer.result->entries, options_.terms)) {
        return end_with(std::move(*end));
      }
    }
    follow(agent_.on_coord_result(member_now_s(), answer.id, answer.result));
  }
  if (double(steady_now_ns() - answered_ns_) * 1e-9 < kCoordPatienceS) return;
  end_with(Error{ErrorKind::Runtime,
                 fmt::format("the Coord has not answered for {} s", kCoordPatienceS)});
}

// A new agent asks for the terms and leaves; one that has them says its name and stays.
void JobMember::take_visitors() {
  Result<std::vector<Reception::Visitor>> arrived = reception_.receive({}, judge_of_agents, 0);
  if (!arrived.ok()) return say(arrived.error().message);
  for (Reception::Visitor& visitor : *arrived) {
    if (askers_.take(visitor)) continue;
    if (visitor.hello.purpose == Purpose::Parts) {
      receivers_.take(std::move(visitor.socket), options_.memory_folder);
      continue;
    }
    visitors_.push_back(std::make_unique<RemoteHost>(std::move(visitor.socket), page_));
  }
  for (std::unique_ptr<RemoteHost>& visitor : visitors_) {
    visitor->receive();
    if (visitor->asks_for_terms()) visitor->send_terms(options_.terms);
    if (visitor->is_broken()) {
      visitor = nullptr;
    } else if (visitor->is_known()) {
      greet_member(*visitor);
      std::unique_ptr<RemoteHost>& place = members_[visitor->name()];
      if (place != nullptr && leader_) replaced_.push_back(std::move(place));
      place = std::move(visitor);
    }
  }
  std::erase(visitors_, nullptr);
}

// Tells a member that has just connected what it may have missed.
void JobMember::greet_member(RemoteHost& member) {
  if (agent_.is_leading()) {
    member.share_page();
    for (size_t i = 0; i < failures_.size(); ++i) member.send_failure(failures_[i], int(i) + 1);
  }
  const auto unsent = unsent_.find(member.name());
  if (unsent == unsent_.end() || is_for_leader(unsent->second.kind)) return;
  member.send_membership(unsent->second);
  unsent_.erase(unsent);
}

void JobMember::take_from_members() {
  for (auto& [name, member] : members_) {
    member->receive();
    for (const MembershipMessage& message : member->take_membership()) {
      follow(agent_.on_message(member_now_s(), name, message));
    }
  }
  for (auto it = members_.begin(); it != members_.end();) {
    const bool is_broken = it->second->is_broken();
    if (is_broken && leader_) replaced_.push_back(std::move(it->second));
    it = is_broken ? members_.erase(it) : std::next(it);
  }
}

void JobMember::tick() {
  const double now_s = member_now_s();
  if (now_s >= agent_.next_tick_s()) follow(agent_.on_tick(now_s));
}

void JobMember::follow(const MembershipEffects& effects) {
  note_membership();
  for (const MembershipEffect& effect : effects) {
    std::visit([&](const auto& what) { follow(what); }, effect);
  }
  show_right();
}

void JobMember::follow(const SendMessage& sent) {
  if (is_for_leader(sent.message.kind)) {
    const auto& agents = agent_.view().agents;
    const auto leader = agents.find(sent.to);
    if (leader != agents.end()) link_.turn_to(sent.to, leader->second.card.address);
    AgentChannel* const channel = link_.leader() == sent.to ? link_.channel() : nullptr;
    if (channel != nullptr) {
      const MembershipWords words = words_of(sent.message);
      channel->send({.kind = AgentMessageKind::Membership}, std::as_bytes(std::span(&words, 1)));
    } else if (sent.message.kind != MembershipMessage::Kind::Alive) {
      unsent_[sent.to] = sent.message;
    }
    return;
  }
  if (const auto found = members_.find(sent.to); found != members_.end()) {
    found->second->send_membership(sent.message);
  } else {
    unsent_[sent.to] = sent.message;
  }
}

void JobMember::follow(const CallCoord& asked) { worker_.ask(asked.id, asked.call); }

void JobMember::follow(const RaiseFence& raise) { worker_.raise_fence(raise.epoch); }

// Ranks keep their processes: they end their epoch and wait for the next one.
void JobMember::follow(const StopRanks& stop) {
  page_->least_epoch = first_rank_epoch(stop.epoch + 1);
  if (leader_) failures_ = leader_->failures();
  leader_.reset();
  hosts_.reset();
  replaced_.clear();
  running_ = {};
  stopped_ns_ = steady_now_ns();
}

void JobMember::follow(const StartRanks& start) {
  running_ = start.membership;
  stopped_ns_ = 0;
  show_right();
  if (leads()) {
    lead_since_ns_ = steady_now_ns();
    link_.drop();
  } else {
    is_planned_ = false;
    tell_ready();
  }
}

void JobMember::note_membership() {
  const MembershipView& view = agent_.view();
  for (const auto& [name, agent] : view.agents) seen_[name] = agent.card.slots;
  if (view.record.formed.epoch <= newest_.epoch) return;
  before_ = std::exchange(newest_, view.record.formed);
}

// Shows the ranks until when they may run. They obey it even while this agent is stopped.
void JobMember::show_right() {
  if (agent_.running_epoch() > 0) page_->may_run_until_ns = member_ns_of(agent_.may_run_until_s());
}

// Ranks that take longer to end a step must not hold the folder of the run when another epoch
// begins elsewhere.
void JobMember::kill_late_ranks() {
  const double late_s = kLateShare * options_.terms.lease_s;
  if (stopped_ns_ == 0 || double(steady_now_ns() - stopped_ns_) * 1e-9 < late_s) return;
  own_->kill_unless_waiting();
}

// The launcher takes the job with it, because nobody else knows yet that there is one.
void JobMember::stop_before_begin() {
  const Error stopped{ErrorKind::Runtime, "stopped before the job has begun"};
  if (options_.is_launcher) return finish(stopped);
  end_with(stopped);
}

void JobMember::end_with(Result<RanksEnd> end) {
  if (!end_) end_.emplace(std::move(end));
}

// Ends the ranks first and the lease after them, so that no other member waits for this one.
void JobMember::leave() {
  leader_.reset();
  hosts_.reset();
  own_.reset();
  const auto& agents = agent_.view().agents;
  const auto mine = agents.find(options_.name);
  if (mine == agents.end()) return;
  worker_.ask(0, {.kind = CoordCall::Kind::Revoke, .lease = mine->second.lease});
  const Deadline deadline = Deadline::after(kLeaveS);
  while (deadline.left_ms() > 0) {
    for (const CoordWorker::Answer& answer : worker_.take_answers()) {
      if (answer.call.kind == CoordCall::Kind::Revoke) return;
    }
    pollfd entry{worker_.fd(), POLLIN, 0};
    ::poll(&entry, 1, deadline.left_ms());
  }
}

Result<RanksEnd> JobMember::run() {
  while (!end_) {
    wait();
    take_signals();
    take_answers();
    take_visitors();
    take_from_members();
    answer_askers();
    tick();
    kill_late_ranks();
    probe_others();
    hand_over();
    if (leads()) {
      lead();
    } else {
      follow_leader();
    }
    if (options_.on_turn) options_.on_turn();
  }
  leave();
  return std::move(*end_);
}

}  // namespace trireme
