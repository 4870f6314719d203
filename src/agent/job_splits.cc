// The leader leaves out hosts that do not reach all others.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "agent/job_member.h"

namespace trireme {
namespace {

constexpr double kReachedAgainLeases = 1.0;
constexpr double kMeetingLeases = 2.0;  // for ranks to meet although a busy machine delays them

double splits_now_s() { return double(steady_now_ns()) * 1e-9; }

}  // namespace

void JobMember::probe_others() {
  std::map<std::string, std::string> addresses;
  for (const auto& [name, agent] : agent_.view().agents) {
    if (name != options_.name) addresses[name] = agent.card.address;
  }
  probe_.set_peers(std::move(addresses));
  unreached_[options_.name] = probe_.unreached();
  for (const auto& [name, member] : members_) unreached_[name] = member->unreached();
}

// Tells the leader whom this host does not reach.
void JobMember::tell_unreached() {
  AgentChannel* const channel = link_.channel();
  const std::set<std::string>& own = unreached_[options_.name];
  if (channel == nullptr || own == told_unreached_) return;
  told_unreached_ = own;
  channel->send({.kind = AgentMessageKind::Unreached}, fmt::format("{}", fmt::join(own, "\n")));
}

bool JobMember::do_not_reach_each_other(const std::string& a, const std::string& b) const {
  const auto of_a = unreached_.find(a);
  const auto of_b = unreached_.find(b);
  return (of_a != unreached_.end() && of_a->second.contains(b)) ||
         (of_b != unreached_.end() && of_b->second.contains(a));
}

// If ranks have waited in vain, or do not meet, because their hosts do not reach each other, the
// next membership begins without some of these hosts. Returns true if it was asked for.
bool JobMember::leave_out_split_hosts() {
  const bool is_split = leader_->has_waited_in_vain() ||
                        leader_->has_waited_for_ranks(kMeetingLeases * options_.terms.lease_s);
  if (!is_split) return false;
  std::vector<std::string> hosts = {options_.name};  // this one reaches all, so it stays
  for (const Member& one : running_.members) {
    if (one.agent != options_.name) hosts.push_back(one.agent);
  }
  const std::set<std::string> out = hosts_to_leave_out(hosts, unreached_);
  if (out.empty()) return false;
  std::vector<std::string> reasons;
  for (const std::string& host : out) {
    for (const std::string& other : hosts) {
      if (!do_not_reach_each_other(host, other)) continue;
      why_left_out_[host] = fmt::format("does not reach host {}", other);
      reasons.push_back(fmt::format("hosts {} and {} do not reach each other", host, other));
      break;
    }
    left_out_[host] = splits_now_s();
  }
  const std::string why =
      fmt::format("{}; the job goes on without {}", fmt::join(reasons, ", "), fmt::join(out, ", "));
  say(why);
  show_left_out();
  follow(agent_.on_ranks_failed(splits_now_s(), why));
  return true;
}

// A host may take part again once it has reached all members for the length of a lease.
void JobMember::take_back_hosts() {
  const double now_s = splits_now_s();
  const size_t before = left_out_.size();
  for (auto& [host, apart_s] : left_out_) {
    for (const Member& one : running_.members) {
      if (do_not_reach_each_other(host, one.agent)) apart_s = now_s;
    }
  }
  const double patience_s = kReachedAgainLeases * options_.terms.lease_s;
  std::erase_if(left_out_, [&](const auto& entry) { return now_s > entry.second + patience_s; });
  if (left_out_.size() != before) show_left_out();
}

// A new leader also leaves out the hosts that the former leader left out.
void JobMember::keep_left_out() {
  std::map<std::string, double> left_out;
  for (const std::string& host : agent_.left_out()) {
    left_out[host] = splits_now_s();
    why_left_out_.try_emplace(host, "did not reach all other hosts");
  }
  left_out_ = std::move(left_out);
}

void JobMember::show_left_out() {
  std::set<std::string> names;
  for (const auto& [host, apart_s] : left_out_) names.insert(host);
  agent_.leave_out(std::move(names));
}

}  // namespace trireme
