// A member of a job leads it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>

#include "agent/agent_listener.h"
#include "agent/job_coord.h"
#include "agent/job_member.h"
#include "agent/rank_exit_code.h"

namespace trireme {
namespace {

constexpr int64_t kShowPageNs = 500'000'000;
constexpr double kReadyLeases = 2.0;  // for all members to be ready
constexpr double kFinishS = 5.0;      // for the end to be in the Coord
constexpr double kDismissS = 1.0;
// Share of the lease. A host can take part in the next membership if its agent has sent something
// within this time. Agents send something every sixth of a lease.
constexpr double kNearShare = 1.0 / 3.0;
constexpr int64_t kFinishId = -1;  // of the call that writes the end

double leading_now_s() { return double(steady_now_ns()) * 1e-9; }

}  // namespace

RemoteHost* JobMember::member(const std::string& name) const {
  const auto found = members_.find(name);
  return found == members_.end() ? nullptr : found->second.get();
}

bool JobMember::are_members_ready() const {
  return std::all_of(running_.members.begin(), running_.members.end(), [&](const Member& one) {
    const RemoteHost* const host = member(one.agent);
    return one.agent == options_.name || (host != nullptr && host->ready_in() == running_.epoch);
  });
}

// Says which hosts have made the ranks save for this membership.
std::string JobMember::planned_change() const {
  std::vector<std::string> joined;
  for (const Member& one : running_.members) {
    if (before_.find(one.agent) == nullptr) joined.push_back(one.agent);
  }
  if (joined.empty()) return "";
  return fmt::format("{} {} joined", fmt::join(joined, " and "),
                     joined.size() == 1 ? "has" : "have");
}

FormerJob JobMember::former_job() const {
  FormerJob former{.membership = running_.epoch, .failures = failures_, .is_planned = is_planned_};
  for (const Member& one : before_.members) {
    if (running_.find(one.agent) != nullptr) continue;
    if (one.slots > 0) former.lost_host = one.agent;
    former.what = fmt::format("{} has left the job", one.agent);
    const auto why = why_left_out_.find(one.agent);
    if (left_out_.contains(one.agent)) former.lost_why = why->second;
  }
  if (is_planned_) former.what = planned_change();
  if (former.what.empty()) former.what = "the hosts had to agree anew who takes part";
  if (former.lost_host.empty()) former.lost_host = "another host";
  return former;
}

// Hosts get ranks in the order in which the user has named them; others follow by name.
void JobMember::begin_to_lead() {
  std::vector<Member> members = running_.members;
  const auto& named = options_.terms.hosts;
  const auto place = [&](const Member& one) {
    return std::find_if(named.begin(), named.end(),
                        [&](const NamedHost& host) { return host.name == one.agent; });
  };
  std::stable_sort(members.begin(), members.end(),
                   [&](const Member& a, const Member& b) { return place(a) < place(b); });
  hosts_.emplace();
  for (const Member& one : members) {
    RankHost* const remote = member(one.agent);
    RankHost& host = one.agent == options_.name ? *own_ : *remote;
    (void)host.take_news();  // living() is what is left of it
    hosts_->add(host, one.slots);
  }
  const std::string address = interface_of(reception_.address()) + ":0";
  Result<Rendezvous> rendezvous = Rendezvous::open(address, options_.secret, options_.log);
  if (!rendezvous.ok()) return end_with(rendezvous.error());
  keep_left_out();
  leader_.emplace(processes_, *hosts_, std::move(*rendezvous), options_.secret, page_,
                  former_job());
  show_outsiders();
  is_planned_ = false;
  const Status begun = leader_->begin();
  if (!begun.ok()) return finish(begun.error());  // the others would fail in the same way
  for (int signal = 0; signal < num_signals_; ++signal) leader_->ask_to_stop(last_signal_);
}

void JobMember::show_outsiders() {
  std::vector<JobHosts::Outsider> outsiders;
  for (const auto& [name, slots] : seen_) {
    if (running_.find(name) != nullptr) continue;
    const RemoteHost* const host = member(name);
    const bool is_near = host != nullptr && !left_out_.contains(name) &&
                         host->silent_s() < kNearShare * options_.terms.lease_s;
    outsiders.push_back({name, slots, is_near && agent_.view().agents.contains(name)});
  }
  hosts_->set_outsiders(std::move(outsiders));
}

// Every agent must know the failures and how far the job is, because any may lead next.
void JobMember::share_failures() {
  const std::vector<JobFailure>& all = leader_->failures();
  for (size_t i = failures_.size(); i < all.size(); ++i) {
    for (const auto& [name, member] : members_) member->send_failure(all[i], int(i) + 1);
  }
  failures_ = all;
  const int64_t now = steady_now_ns();
  const std::pair news(page_->begun_ns != 0, page_->told_failures.load());
  if (now - shown_ns_ < kShowPageNs && news == shown_news_) return;
  shown_ns_ = now;
  shown_news_ = news;
  for (const auto& [name, member] : members_) member->share_page();
}

// A job that has not begun waits for all its hosts, as long as ranks may take to start.
bool JobMember::must_wait_for_hosts(double waited_s) const {
  return page_->begun_ns == 0 && waited_s < options_.terms.start_timeout_s &&
         std::ssize(running_.members) < options_.terms.num_agents;
}

void JobMember::lead() {
  if (!leader_) {
    const double waited_s = double(steady_now_ns() - lead_since_ns_) * 1e-9;
    if (must_wait_for_hosts(waited_s)) {
      if (agent_.view().agents.size() <= running_.members.size()) return;
      return follow(agent_.on_ranks_failed(leading_now_s(), "more hosts have come"));
    }
    if (are_members_ready()) return begin_to_lead();
    if (waited_s > kReadyLeases * options_.terms.lease_s) {
      follow(agent_.on_ranks_failed(leading_now_s(), "some members are not ready"));
    }
    return;
  }
  // The launcher may have passed on a signal of the user.
  for (const auto& [name, member] : members_) {
    for (; num_signals_ < member->num_signals(); ++num_signals_) {
      last_signal_ = member->last_signal();
      leader_->ask_to_stop(last_signal_);
    }
  }
  take_back_hosts();
  show_outsiders();
  leader_->turn();
  share_failures();
  if (leader_->is_over()) return finish(leader_->end());
  if (leave_out_split_hosts()) return;
  is_planned_ = leader_->needs_members();
  if (is_planned_) {
    follow(agent_.on_ranks_failed(leading_now_s(), "other hosts are to take part"));
  } else if (!are_members_ready()) {
    follow(agent_.on_ranks_failed(leading_now_s(), "the connection to a member is lost"));
  }
}

// The end stands in the Coord, so that agents which cannot be reached now learn of it later.
void JobMember::finish(Result<RanksEnd> end) {
  RanksEnd told;
  if (end.ok()) {
    told = *end;
  } else {
    const bool is_usage = end.error().kind == ErrorKind::Usage;
    told.exit_code = is_usage ? kUsageExitCode : kFailedExitCode;
    told.why_no_restart = end.error().message;
  }
  const std::string text = to_json(told);
  const auto write = [&] {
    worker_.ask(kFinishId, {.kind = CoordCall::Kind::CompareAndSwap,
                            .write = {.key = kEndKey, .value = text}});
  };
  write();
  const Deadline deadline = Deadline::after(kFinishS);
  bool is_written = false;
  while (!is_written && deadline.left_ms() > 0) {
    pollfd entry{worker_.fd(), POLLIN, 0};
    ::poll(&entry, 1, deadline.left_ms());
    for (const CoordWorker::Answer& answer : worker_.take_answers()) {
      if (answer.id != kFinishId) continue;
      is_written = answer.result.ok();
      if (!is_written) write();
    }
  }
  for (const auto& [name, member] : members_) member->dismiss(told, Deadline::after(kDismissS));
  askers_.finish(status_answer(), Deadline::after(kDismissS));
  end_with(std::move(end));
}

}  // namespace trireme
