#include "coord/membership_leader.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace trireme {
namespace {

using NewsKind = MembershipMessage::Kind;

constexpr double kLongAgo = -std::numeric_limits<double>::infinity();

// Shares of the lease.
constexpr double kAskAgain = 1.0 / 6.0;
constexpr double kWaitForAnswers = 1.0 / 3.0;
constexpr double kGrowAfter = 2.0;
// An agent that has moved for less than this may have stopped its ranks already, because it could
// not renew their right to run.
constexpr double kSilence = 2.0 / 3.0;

std::vector<std::string> agents_with_ranks(const Membership& membership) {
  std::vector<std::string> agents;
  for (const Member& member : membership.members) {
    if (member.num_ranks > 0) agents.push_back(member.agent);
  }
  return agents;
}

}  // namespace

void MembershipLeader::begin(LeaseId lease, const std::vector<std::string>& left_out) {
  lease_ = lease;
  heard_s_.clear();
  runs_epoch_.clear();
  left_out_ = {left_out.begin(), left_out.end()};
  left_out_.erase(options_.agent);
  epoch_ = 0;
  wanted_epoch_ = 0;
  is_formed_ = false;
  claim_because("a new leader was elected");
}

std::string MembershipLeader::session() const {
  return fmt::format("{} {}", options_.agent, lease_);
}

void MembershipLeader::claim_because(std::string why) {
  if (!must_claim_) why_claim_ = std::move(why);
  must_claim_ = true;
}

LeaderOrders MembershipLeader::act(double now_s, double seen_s, const MembershipView& view) {
  now_s_ = now_s;
  seen_s_ = seen_s;
  orders_ = {};
  const MembershipRecord& record = view.record;
  const bool is_mine = record.claimed_by == session();
  if (wanted_epoch_ > 0 && is_mine && record.claimed_epoch == wanted_epoch_) {
    wanted_epoch_ = 0;
    enter_gathering(record.claimed_epoch);
    // The first epoch of a job is nothing that its user must be told.
    if (record.formed.epoch > 0) {
      orders_.sentence = fmt::format("epoch {} begins: {}", epoch_, why_claim_);
    }
  }
  if (epoch_ > 0 && record.claimed_epoch != epoch_) {
    claim_because(
        fmt::format("epoch {} was claimed by {}", record.claimed_epoch, record.claimed_by));
  }
  if (!must_claim_ && !is_formed_ && record.formed.epoch == epoch_) {
    is_formed_ = true;
    formed_s_ = now_s_;
    saved_.clear();
    committed_step_ = 0;
    for (const Member& member : record.formed.members) {
      orders_.messages.push_back({member.agent, {.kind = NewsKind::Formed, .epoch = epoch_}});
    }
  }
  if (!must_claim_ && is_formed_) watch(view);
  if (must_claim_) {
    claim(view);
  } else if (!is_formed_) {
    gather(view);
  }
  return std::exchange(orders_, {});
}

void MembershipLeader::on_message(double now_s, const std::string& from,
                                  const MembershipMessage& message) {
  now_s_ = now_s;
  heard_s_[from] = now_s;
  if (message.kind == NewsKind::Alive) runs_epoch_[from] = message.epoch;
  if (message.epoch != epoch_) return;
  switch (message.kind) {
    case NewsKind::Prepared:
      if (!is_formed_) answers_[from] = {message.lease, message.held};
      break;
    case NewsKind::Failed:
      if (is_formed_) claim_because(from + " has stopped its ranks");
      break;
    case NewsKind::Saved: {
      int64_t& step = saved_[from];
      step = std::max(step, message.step);
      if (message.step <= committed_step_) repeat_to_.insert(from);
      break;
    }
    default:
      break;
  }
}

void MembershipLeader::on_fence_raised(int64_t epoch) {
  fenced_epoch_ = std::max(fenced_epoch_, epoch);
}

// Numbers are never reused: the claim counts on from the highest one in the record.
void MembershipLeader::claim(const MembershipView& view) {
  MembershipRecord record = view.record;
  if (view.record_version == 0) {
    record.lease_s = options_.lease_s;
    record.base = {.epoch = 0, .step = options_.first_step - 1};
  }
  record.claimed_epoch += 1;
  record.claimed_by = session();
  wanted_epoch_ = record.claimed_epoch;
  epoch_ = 0;
  is_formed_ = false;
  orders_.record = std::move(record);
}

void MembershipLeader::enter_gathering(int64_t epoch) {
  epoch_ = epoch;
  must_claim_ = false;
  is_formed_ = false;
  claimed_s_ = now_s_;
  answers_.clear();
  asked_s_ = kLongAgo;
  fence_asked_s_ = kLongAgo;
}

// Asks all agents to stop, and forms the epoch of those that have answered. If several members, and
// more than a third, are missing at once, the network is the likely cause, so they get more time.
void MembershipLeader::gather(const MembershipView& view) {
  if (now_s_ >= asked_s_ + kAskAgain * options_.lease_s) {
    asked_s_ = now_s_;
    for (const auto& [name, agent] : view.agents) {
      if (has_answered(name, view) || left_out_.contains(name)) continue;
      orders_.messages.push_back({name, {.kind = NewsKind::Prepare, .epoch = epoch_}});
    }
  }
  const Membership& former = view.record.formed;
  const auto missing =
      std::count_if(former.members.begin(), former.members.end(), [&](const Member& member) {
        return !has_answered(member.agent, view) && !left_out_.contains(member.agent);
      });
  const bool are_many_missing =
      missing > 1 && double(missing) > options_.many_share * double(former.members.size());
  const bool is_first = former.epoch == 0 && std::ssize(answers_) < options_.num_expected;
  const double waits_s = options_.lease_s * (are_many_missing || is_first ? 1.0 : kWaitForAnswers);
  const bool are_all_here = all_have_answered(view) && !are_many_missing && !is_first;
  if (!are_all_here && now_s_ < claimed_s_ + waits_s) return;
  if (!have_former_stopped(view)) return;
  const std::optional<int64_t> step = choose_step(view);
  if (!step) {
    orders_.step_back = is_in_smaller_part(view);
    if (orders_.step_back) {
      orders_.sentence = fmt::format(
          "{} does not reach most of the other agents, which have stopped for epoch {}: another "
          "agent leads",
          options_.agent, epoch_);
    }
    if (orders_.step_back || now_s_ < claimed_s_ + 2 * options_.lease_s) return;
    orders_.resign = true;
    orders_.sentence = fmt::format(
        "epoch {} cannot be formed: {} agents have answered, and fewer than half of the {} are "
        "among them. {} gives another agent the lead; training waits until more hosts are back",
        epoch_, answers_.size(),
        view.record.holders.empty()
            ? fmt::format("{} former members", view.record.formed.members.size())
            : fmt::format("{} hosts that hold the last snapshot", view.record.holders.size()),
        options_.agent);
    return;
  }
  if (fenced_epoch_ >= epoch_) {
    form(view, *step);
  } else if (now_s_ >= fence_asked_s_ + kAskAgain * options_.lease_s) {
    fence_asked_s_ = now_s_;
    orders_.raise_fence = epoch_;
  }
}

// An answer counts only while its agent holds the lease under which it was given.
bool MembershipLeader::has_answered(const std::string& name, const MembershipView& view) const {
  const auto agent = view.agents.find(name);
  const auto answer = answers_.find(name);
  return agent != view.agents.end() && answer != answers_.end() &&
         answer->second.lease == agent->second.lease;
}

bool MembershipLeader::all_have_answered(const MembershipView& view) const {
  return std::all_of(view.agents.begin(), view.agents.end(), [&](const auto& agent) {
    return has_answered(agent.first, view) || left_out_.contains(agent.first);
  });
}

// Ranks of a former member have stopped if it said so, to the leader or in the Coord, if its lease
// has ended, or if a whole lease has passed since the claim: it could not renew its right to run
// after the claim.
bool MembershipLeader::has_stopped(const Member& member, const MembershipView& view) const {
  if (member.num_ranks == 0 || answers_.contains(member.agent)) return true;
  if (now_s_ >= claimed_s_ + options_.lease_s) return true;
  if (seen_s_ <= claimed_s_) return false;
  const auto agent = view.agents.find(member.agent);
  if (agent == view.agents.end() || agent->second.lease != member.lease) return true;
  return agent->second.card.stopped_epoch > view.record.formed.epoch;
}

// Agents that obey a claim which they have only read in the Coord do not hear this leader, or it
// does not hear them.
bool MembershipLeader::is_in_smaller_part(const MembershipView& view) const {
  if (now_s_ < claimed_s_ + kWaitForAnswers * options_.lease_s) return false;
  int64_t num_heard = 0, num_unheard = 0;
  for (const auto& [name, agent] : view.agents) {
    if (name == options_.agent) continue;
    if (has_answered(name, view)) {
      ++num_heard;
    } else if (agent.card.stopped_epoch >= epoch_) {
      ++num_unheard;
    }
  }
  return num_unheard > num_heard + 1;
}

bool MembershipLeader::have_former_stopped(const MembershipView& view) const {
  const std::vector<Member>& members = view.record.formed.members;
  return std::all_of(members.begin(), members.end(),
                     [&](const Member& member) { return has_stopped(member, view); });
}

// Returns the step to restore: the one that most holders have, and the newest of these. Every
// holder has saved a committed step, so no such step is passed over. Returns nullopt if fewer than
// half of the holders have it. Before the first commit, half of the former members must have
// answered, or half of the expected agents if there was no epoch yet.
std::optional<int64_t> MembershipLeader::choose_step(const MembershipView& view) const {
  const MembershipRecord& record = view.record;
  int64_t num_answers = 0;
  int64_t num_former_answers = 0;
  std::map<int64_t, int64_t> count;  // holders by step
  for (const auto& [name, answer] : answers_) {
    if (!has_answered(name, view)) continue;
    ++num_answers;
    num_former_answers += record.formed.epoch == 0 || record.formed.find(name) != nullptr;
    if (std::find(record.holders.begin(), record.holders.end(), name) == record.holders.end()) {
      continue;
    }
    for (const SavedStep& saved : answer.held) {
      if (saved.epoch == record.base.epoch && saved.step >= record.base.step) ++count[saved.step];
    }
  }
  const bool is_start = record.base.epoch == 0;
  const auto num_former = record.formed.epoch > 0 ? std::ssize(record.formed.members)
                                                  : ptrdiff_t{options_.num_expected};
  const auto num_needed_of = double(is_start ? num_former : std::ssize(record.holders));
  int64_t step = record.base.step;
  int64_t most = is_start ? num_former_answers : 0;
  for (const auto& [candidate, num_holders] : count) {
    if (num_holders < most) continue;
    most = num_holders;
    step = candidate;
  }
  if (num_answers == 0 || double(most) < options_.holder_share * num_needed_of) return std::nullopt;
  return step;
}

void MembershipLeader::form(const MembershipView& view, int64_t step) {
  MembershipRecord record = view.record;
  Membership formed{.epoch = epoch_, .leader = options_.agent, .first_step = step + 1};
  for (const auto& [name, answer] : answers_) {
    if (!has_answered(name, view)) continue;
    const AgentCard& card = view.agents.at(name).card;
    formed.members.push_back(
        {.agent = name, .address = card.address, .lease = answer.lease, .slots = card.slots});
  }
  formed.layout = options_.place(formed.members);
  record.formed = std::move(formed);
  record.left_out.assign(left_out_.begin(), left_out_.end());
  orders_.record = std::move(record);
}

void MembershipLeader::watch(const MembershipView& view) {
  if (is_alone(view)) {
    orders_.step_back = true;
    orders_.sentence = fmt::format(
        "{} has heard nothing from most of the other agents for {:.1f} s, but they are alive in "
        "the "
        "Coord: another agent leads",
        options_.agent, kSilence * options_.lease_s);
    return;
  }
  if (const std::string why = trouble(view); !why.empty()) {
    claim_because(why);
    return;
  }
  for (const std::string& name : std::exchange(repeat_to_, {})) {
    orders_.messages.push_back(
        {name, {.kind = NewsKind::Committed, .epoch = epoch_, .step = committed_step_}});
  }
  commit(view);
}

bool MembershipLeader::is_silent(const Member& member) const {
  const auto heard = heard_s_.find(member.agent);
  const double heard_s = heard == heard_s_.end() ? formed_s_ : std::max(formed_s_, heard->second);
  return now_s_ > heard_s + kSilence * options_.lease_s;
}

// True if most of the other members hold their leases but are silent here: then they reach the
// Coord, and rather each other than this leader. Of two members none is more than the other.
bool MembershipLeader::is_alone(const MembershipView& view) const {
  const std::vector<Member>& members = view.record.formed.members;
  const auto num_silent = std::count_if(members.begin(), members.end(), [&](const Member& member) {
    const auto agent = view.agents.find(member.agent);
    return member.agent != options_.agent && agent != view.agents.end() &&
           agent->second.lease == member.lease && is_silent(member);
  });
  return 2 * num_silent > std::ssize(members);
}

std::string MembershipLeader::trouble(const MembershipView& view) const {
  for (const Member& member : view.record.formed.members) {
    const auto agent = view.agents.find(member.agent);
    if (agent == view.agents.end() || agent->second.lease != member.lease) {
      return "the lease of " + member.agent + " has ended";
    }
    if (is_silent(member)) {
      return fmt::format("{} has been silent for {:.1f} s", member.agent,
                         kSilence * options_.lease_s);
    }
    const auto runs = runs_epoch_.find(member.agent);
    if (now_s_ > formed_s_ + options_.lease_s && runs != runs_epoch_.end() &&
        runs->second != epoch_) {
      return member.agent + " does not run the epoch";
    }
  }
  return "";
}

// A step is committed once every member with ranks has saved it. The first committed step of an
// epoch makes these members the holders. The record must name them before any agent drops older
// snapshots.
void MembershipLeader::commit(const MembershipView& view) {
  const std::vector<std::string> holders = agents_with_ranks(view.record.formed);
  int64_t step = std::numeric_limits<int64_t>::max();
  for (const std::string& name : holders) {
    const auto saved = saved_.find(name);
    step = std::min(step, saved == saved_.end() ? 0 : saved->second);
  }
  if (holders.empty() || step <= committed_step_) return;
  if (view.record.base.epoch != epoch_) {
    MembershipRecord record = view.record;
    record.base = {.epoch = epoch_, .step = step};
    record.holders = holders;
    orders_.record = std::move(record);
    return;
  }
  committed_step_ = step;
  orders_.commit = SavedStep{.epoch = epoch_, .step = step};
  for (const Member& member : view.record.formed.members) {
    orders_.messages.push_back(
        {member.agent, {.kind = NewsKind::Committed, .epoch = epoch_, .step = step}});
  }
  if (can_grow(view)) claim_because("agents have joined");
}

// Agents join only right after a step was committed, so that no work is lost.
bool MembershipLeader::can_grow(const MembershipView& view) const {
  if (now_s_ < formed_s_ + kGrowAfter * options_.lease_s) return false;
  return std::any_of(view.agents.begin(), view.agents.end(), [&](const auto& agent) {
    const auto heard = heard_s_.find(agent.first);
    return view.record.formed.find(agent.first) == nullptr && !left_out_.contains(agent.first) &&
           heard != heard_s_.end() && now_s_ < heard->second + kWaitForAnswers * options_.lease_s;
  });
}

}  // namespace trireme
