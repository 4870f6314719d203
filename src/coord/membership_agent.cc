#include "coord/membership_agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

constexpr double kBeat = 1.0 / 6.0;  // share of the lease between two renewals

}  // namespace

MembershipAgent::MembershipAgent(MembershipOptions options, std::vector<SavedStep> held)
    : options_(std::move(options)),
      beat_s_(kBeat * options_.lease_s),
      held_(std::move(held)),
      leader_(options_) {}

double MembershipAgent::may_run_until_s() const {
  return std::min(lease_renewed_s_, record_seen_s_) + options_.run_share * options_.lease_s;
}

double MembershipAgent::next_tick_s() const {
  return running_.epoch > 0 ? std::min(next_beat_s_, may_run_until_s()) : next_beat_s_;
}

MembershipEffects MembershipAgent::on_tick(double now_s) {
  now_s_ = now_s;
  if (now_s_ >= next_beat_s_) {
    next_beat_s_ = now_s_ + beat_s_;
    renew();
    const bool has_leader = lease_ != 0 && view_.leader_version > 0 && !is_leader_;
    if (has_leader && view_.leader != options_.agent) send(view_.leader, {.epoch = running_.epoch});
    if (running_.epoch > 0 && saved_step_ > committed_step_) {
      on_leader_news(
          running_.leader,
          {.kind = MembershipMessage::Kind::Saved, .epoch = running_.epoch, .step = saved_step_});
    }
  }
  return take();
}

MembershipEffects MembershipAgent::on_message(double now_s, const std::string& from,
                                              const MembershipMessage& message) {
  using Kind = MembershipMessage::Kind;
  now_s_ = now_s;
  if (message.epoch < known_epoch_ && message.kind != Kind::Alive) return take();
  switch (message.kind) {
    case Kind::Prepare:
      on_prepare(from, message);
      break;
    case Kind::Formed:
      look();
      break;
    case Kind::Committed:
      on_committed(message);
      break;
    default:
      if (is_leader_) leader_.on_message(now_s_, from, message);
      break;
  }
  return take();
}

MembershipEffects MembershipAgent::on_coord_result(double now_s, int64_t id,
                                                   const Result<CoordReply>& result) {
  now_s_ = now_s;
  const auto found = pending_.find(id);
  if (found == pending_.end()) return take();
  const Pending pending = found->second;
  pending_.erase(found);
  const bool is_done = result.ok() && result.value().is_done;
  switch (pending.asked) {
    case Asked::Grant:
      if (!result.ok() || lease_ != 0) break;
      lease_ = result.value().lease;
      lease_renewed_s_ = pending.sent_s;
      look();
      break;
    case Asked::KeepAlive:
      if (pending.lease != lease_ || !result.ok()) break;
      if (is_done) lease_renewed_s_ = std::max(lease_renewed_s_, pending.sent_s);
      if (!is_done) lose_lease();
      break;
    case Asked::List:
      if (result.ok()) read_view(pending.sent_s, result.value().entries);
      break;
    case Asked::Register:
    case Asked::Elect:
    case Asked::Resign:
    case Asked::Revoke:
      if (result.ok()) look();
      break;
    case Asked::Write:
      if (result.ok()) read_record(result.value().entries.front());
      if (!is_done) look();
      break;
  }
  return take();
}

MembershipEffects MembershipAgent::on_fence_raised(double now_s, int64_t epoch) {
  now_s_ = now_s;
  leader_.on_fence_raised(epoch);
  return take();
}

MembershipEffects MembershipAgent::on_saved(double now_s, int64_t step) {
  now_s_ = now_s;
  if (running_.epoch == 0 || step <= saved_step_ || !may_save()) return take();
  held_.push_back({.epoch = running_.epoch, .step = step});
  saved_step_ = step;
  on_leader_news(running_.leader,
                 {.kind = MembershipMessage::Kind::Saved, .epoch = running_.epoch, .step = step});
  return take();
}

MembershipEffects MembershipAgent::on_ranks_failed(double now_s, const std::string& why) {
  now_s_ = now_s;
  if (running_.epoch == 0) return take();
  const MembershipMessage failed{.kind = MembershipMessage::Kind::Failed, .epoch = running_.epoch};
  const std::string leader = running_.leader;
  stop_ranks(why);
  on_leader_news(leader, failed);
  return take();
}

// Every input ends here: ranks that may not run any more are stopped, and a leader acts.
MembershipEffects MembershipAgent::take() {
  if (running_.epoch > 0 && now_s_ >= may_run_until_s()) {
    stop_ranks("the Coord has not confirmed in time that the epoch is still the newest");
  }
  if (is_leader_) lead();
  return std::exchange(effects_, {});
}

int64_t MembershipAgent::ask(Asked asked, CoordCall call) {
  const int64_t id = next_id_++;
  pending_[id] = {asked, now_s_, call.lease};
  effects_.push_back(CallCoord{id, std::move(call)});
  return id;
}

bool MembershipAgent::is_pending(Asked asked) const {
  return std::any_of(pending_.begin(), pending_.end(),
                     [&](const auto& pending) { return pending.second.asked == asked; });
}

void MembershipAgent::send(const std::string& to, MembershipMessage message) {
  effects_.push_back(SendMessage{to, std::move(message)});
}

void MembershipAgent::on_leader_news(const std::string& leader, const MembershipMessage& message) {
  if (leader != options_.agent) {
    send(leader, message);
  } else if (is_leader_) {
    leader_.on_message(now_s_, leader, message);
  }
}

void MembershipAgent::renew() {
  if (lease_ == 0) {
    if (!is_pending(Asked::Grant) && now_s_ >= no_lease_before_s_) {
      ask(Asked::Grant, {.kind = CoordCall::Kind::Grant, .seconds = options_.lease_s});
    }
  } else {
    ask(Asked::KeepAlive, {.kind = CoordCall::Kind::KeepAlive, .lease = lease_});
  }
  look();
}

void MembershipAgent::look() { ask(Asked::List, {.kind = CoordCall::Kind::List}); }

void MembershipAgent::lose_lease() {
  lease_ = 0;
  prepared_epoch_ = 0;
  is_leader_ = false;
  stop_ranks("the lease of this agent has ended");
  renew();
}

// Gives up the lease, so that the others see at once that this agent neither leads nor runs ranks.
// For the length of a lease they are not kept waiting for it.
void MembershipAgent::step_back() {
  stop_ranks("another agent is to lead");
  prepared_epoch_ = 0;
  is_leader_ = false;
  no_lease_before_s_ = now_s_ + options_.lease_s;
  no_election_before_s_ = now_s_ + 2 * options_.lease_s;
  ask(Asked::Revoke, {.kind = CoordCall::Kind::Revoke, .lease = lease_});
  lease_ = 0;
}

// Stores what a list shows, unless the answer to a list that was sent later was read already.
void MembershipAgent::read_view(double sent_s, const std::vector<CoordEntry>& entries) {
  if (sent_s <= seen_s_) return;
  seen_s_ = sent_s;
  std::map<std::string, MembershipView::Agent> agents;
  view_.leader.clear();
  view_.leader_version = 0;
  int64_t listed_version = 0;
  for (const CoordEntry& entry : entries) {
    if (entry.key == kRecordKey) {
      listed_version = entry.version;
      read_record(entry);
    } else if (entry.key == kLeaderKey) {
      view_.leader = entry.value;
      view_.leader_version = entry.version;
      view_.leader_lease = entry.lease;
    } else if (entry.key.starts_with(kAgentPrefix)) {
      read_agent(entry, agents);
    }
  }
  view_.agents = std::move(agents);
  const bool shows_running = listed_version == view_.record_version && running_.epoch > 0 &&
                             view_.record.claimed_epoch == running_.epoch;
  if (shows_running) record_seen_s_ = sent_s;
  take_part();
}

void MembershipAgent::read_record(const CoordEntry& entry) {
  if (entry.key != kRecordKey || entry.version <= view_.record_version) return;
  Result<MembershipRecord> record = parse_record(entry.value);
  if (!record.ok()) {
    tell("the Coord's key membership is no record: " + record.error().message);
    return;
  }
  view_.record = std::move(record).value();
  view_.record_version = entry.version;
  const bool is_wrong = view_.record.lease_s != options_.lease_s;
  if (is_wrong && !is_lease_length_wrong_) {
    tell(
        fmt::format("{} cannot take part: its lease has {} s, those of the job have {} s; give it "
                    "the same",
                    options_.agent, options_.lease_s, view_.record.lease_s));
  }
  is_lease_length_wrong_ = is_wrong;
  known_epoch_ = std::max(known_epoch_, view_.record.claimed_epoch);
  if (running_.epoch > 0 && known_epoch_ > running_.epoch) {
    stop_ranks(fmt::format("epoch {} begins", known_epoch_));
  }
}

void MembershipAgent::read_agent(const CoordEntry& entry,
                                 std::map<std::string, MembershipView::Agent>& agents) {
  const std::string name = entry.key.substr(kAgentPrefix.size());
  const auto known = view_.agents.find(name);
  if (known != view_.agents.end() && known->second.version == entry.version) {
    agents.insert(*known);
    return;
  }
  Result<AgentCard> card = parse_card(entry.value);
  if (card.ok()) {
    agents[name] = {entry.lease, entry.version, std::move(card).value()};
  } else {
    tell("the Coord's key " + entry.key + " is no card: " + card.error().message);
  }
}

// Does what the newest view asks of every agent.
void MembershipAgent::take_part() {
  if (is_lease_length_wrong_) return;
  const MembershipRecord& record = view_.record;
  // A leader that has not asked this agent by now may not reach it. Its claim is obeyed already.
  const bool is_unasked = record.claimed_epoch > record.formed.epoch &&
                          prepared_epoch_ < record.claimed_epoch && running_.epoch == 0;
  if (is_unasked) stopped_epoch_ = record.claimed_epoch;
  register_card();
  if (record.formed.epoch > 0 && record.formed.epoch == record.claimed_epoch) {
    take_part_in(record.formed);
  }
  const MembershipMessage alive{.epoch = running_.epoch};
  const bool leads = lease_ != 0 && view_.leader_version > 0 && view_.leader == options_.agent &&
                     view_.leader_lease == lease_;
  if (leads && !is_leader_) leader_.begin(lease_, view_.record.left_out);
  is_leader_ = leads;
  if (leads) {
    leader_.on_message(now_s_, options_.agent, alive);
  } else if (view_.leader_version == 0) {
    stand_for_election();
  } else if (view_.leader != options_.agent) {
    send(view_.leader, alive);
  }
}

void MembershipAgent::register_card() {
  const auto mine = view_.agents.find(options_.agent);
  const bool is_registered = mine != view_.agents.end() && mine->second.lease == lease_ &&
                             mine->second.card.stopped_epoch >= stopped_epoch_;
  if (lease_ == 0 || is_registered || is_pending(Asked::Register)) return;
  AgentCard card = options_.card;
  card.stopped_epoch = stopped_epoch_;
  ask(Asked::Register,
      {.kind = CoordCall::Kind::CompareAndSwap,
       .write = {.key = std::string(kAgentPrefix) + options_.agent,
                 .value = card_text(card),
                 .expected_version = mine == view_.agents.end() ? 0 : mine->second.version,
                 .lease = lease_}});
}

void MembershipAgent::take_part_in(const Membership& formed) {
  const Member* mine = formed.find(options_.agent);
  if (mine == nullptr || running_.epoch == formed.epoch) return;
  const bool may_start = prepared_epoch_ == formed.epoch && lease_ != 0 && mine->lease == lease_;
  const double until_s =
      std::min(lease_renewed_s_, seen_s_) + options_.run_share * options_.lease_s;
  if (may_start && now_s_ < until_s) {
    start_ranks();
  } else {
    on_leader_news(formed.leader, {.kind = MembershipMessage::Kind::Failed, .epoch = formed.epoch});
  }
}

void MembershipAgent::stand_for_election() {
  const auto mine = view_.agents.find(options_.agent);
  const bool is_registered = mine != view_.agents.end() && mine->second.lease == lease_;
  if (lease_ == 0 || !is_registered || is_pending(Asked::Elect)) return;
  if (now_s_ < no_election_before_s_) return;
  ask(Asked::Elect,
      {.kind = CoordCall::Kind::CompareAndSwap,
       .write = {.key = std::string(kLeaderKey), .value = options_.agent, .lease = lease_}});
}

void MembershipAgent::start_ranks() {
  const MembershipRecord& record = view_.record;
  running_ = record.formed;
  record_seen_s_ = seen_s_;
  saved_step_ = committed_step_ = running_.first_step - 1;
  effects_.push_back(StartRanks{
      running_, {.epoch = record.base.epoch, .step = running_.first_step - 1}, record.holders});
}

void MembershipAgent::stop_ranks(const std::string& why) {
  if (running_.epoch == 0) return;
  effects_.push_back(StopRanks{running_.epoch});
  tell(
      fmt::format("{} has stopped its ranks of epoch {}: {}", options_.agent, running_.epoch, why));
  ended_epoch_ = running_.epoch;
  prepared_epoch_ = 0;
  running_ = {};
}

void MembershipAgent::on_prepare(const std::string& from, const MembershipMessage& message) {
  if (is_lease_length_wrong_ || lease_ == 0) return;
  if (message.epoch <= ended_epoch_ || message.epoch == running_.epoch) return;
  known_epoch_ = message.epoch;
  stop_ranks(fmt::format("{} begins epoch {}", from, message.epoch));
  prepared_epoch_ = message.epoch;
  on_leader_news(from, {.kind = MembershipMessage::Kind::Prepared,
                        .epoch = message.epoch,
                        .lease = lease_,
                        .held = held_});
}

void MembershipAgent::on_committed(const MembershipMessage& message) {
  if (message.epoch != running_.epoch || message.step <= committed_step_) return;
  committed_step_ = message.step;
  std::erase_if(held_, [&](const SavedStep& saved) {
    return saved.epoch != message.epoch || saved.step < message.step;
  });
  effects_.push_back(DropBefore{{.epoch = message.epoch, .step = message.step}});
}

// A message from the leader to itself may let it act again at once.
void MembershipAgent::lead() {
  const double until_s = lease_renewed_s_ + options_.run_share * options_.lease_s;
  for (int round = 0; round < 4 && is_leader_ && now_s_ < until_s; ++round) {
    if (!follow(leader_.act(now_s_, seen_s_, view_))) return;
  }
}

bool MembershipAgent::follow(LeaderOrders orders) {
  using Kind = MembershipMessage::Kind;
  if (!orders.sentence.empty()) tell(std::move(orders.sentence));
  if (orders.commit) effects_.push_back(CommitStep{*orders.commit});
  if (orders.raise_fence > 0) effects_.push_back(RaiseFence{orders.raise_fence});
  if (orders.record && !is_pending(Asked::Write)) {
    ask(Asked::Write, {.kind = CoordCall::Kind::CompareAndSwap,
                       .write = {.key = std::string(kRecordKey),
                                 .value = record_text(*orders.record),
                                 .expected_version = view_.record_version}});
  }
  if (orders.step_back) {
    step_back();
    return false;
  }
  if (orders.resign) {
    is_leader_ = false;
    no_election_before_s_ = now_s_ + 2 * options_.lease_s;
    ask(Asked::Resign, {.kind = CoordCall::Kind::CompareAndSwap,
                        .write = {.key = std::string(kLeaderKey),
                                  .value = std::nullopt,
                                  .expected_version = view_.leader_version}});
  }
  bool is_told = false;
  for (auto& [to, message] : orders.messages) {
    if (to != options_.agent) {
      send(to, std::move(message));
      continue;
    }
    is_told = true;
    if (message.kind == Kind::Prepare) on_prepare(to, message);
    if (message.kind == Kind::Formed) look();
    if (message.kind == Kind::Committed) on_committed(message);
  }
  return is_told;
}

}  // namespace trireme
