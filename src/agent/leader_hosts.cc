// The leader chooses the hosts: which of them are drained, and which layout fits into the others.
#include <fmt/format.h>

#include <algorithm>

#include "agent/leader.h"
#include "base/clock.h"

namespace trireme {

bool Leader::is_epoch_wanted() const { return page_->wanted_epoch > place_.epoch; }

// Returns why the ranks should save for another epoch: some are on a host that is drained, or the
// hosts have room for a larger layout now. "": they should not.
std::string Leader::wanted_change() const {
  const bool can_save = std::all_of(ranks_.begin(), ranks_.end(), [](const JobRank& rank) {
    return rank.state == JobRank::State::Joined;
  });
  if (!can_save || page_->trained_epoch != place_.epoch || num_signals_ > 0) return "";
  for (const JobRank& rank : ranks_) {
    if (hosts_.is_usable(rank.host)) continue;
    const auto why = why_drained_.find(host_of(rank));
    return fmt::format("host {} is drained{}", host_of(rank),
                       why == why_drained_.end() ? "" : ", because " + why->second);
  }
  const int64_t num_slots = hosts_.num_slots() + hosts_.num_waiting_slots();
  return could_grow(num_slots) ? "the hosts have room for more ranks" : "";
}

// Returns true if the job has a layout that fits into the slots of the other hosts.
bool Leader::has_room_without(int host) const {
  const int64_t own = hosts_.slots()[size_t(host)];
  const int64_t left = hosts_.num_slots() - own + hosts_.num_waiting_slots();
  if (left <= 0 || processes_.leaves_lost_out) return false;
  const auto fitting = processes_.fitting(int(std::min<int64_t>(left, processes_.ranks)), *page_);
  return fitting && fitting->layout;
}

void Leader::drain(int host, const std::string& why, const std::string& what_follows) {
  const std::string& name = hosts_.at(host).name();
  hosts_.at(host).drain();
  why_drained_[name] = why;
  say(fmt::format("host {} is drained: {}; {}", name, why, what_follows));
}

// Drains the hosts that fail too often, if the other hosts have room for their ranks. It counts the
// failures of this job and those in the history of the run. Ranks save before they leave a host.
void Leader::drain_failing_hosts() {
  if (policy_.failures().empty() || page_->trained_epoch != place_.epoch) return;
  std::vector<HostFailure> failures = host_failures_of(policy_.failures());
  failures.insert(failures.end(), history_.begin(), history_.end());
  for (int host = 0; host < hosts_.size(); ++host) {
    const std::string& name = hosts_.at(host).name();
    const double score = score_of(failures, name, unix_time_s());
    if (score < kDrainScore || ranks_on(host) == 0 || !hosts_.is_usable(host)) continue;
    const std::string why =
        fmt::format("it has failed often lately (score {:.1f} of {:.1f})", score, kDrainScore);
    if (has_room_without(host)) {
      drain(host, why, "its ranks leave it after they have saved");
    } else if (hosts_.size() > 1 && failing_.insert(name).second) {
      say(fmt::format("host {} is still used, because the other hosts have no room, but {}", name,
                      why));
    }
  }
}

// An epoch has ended because its numbers were wrong. If one host alone was, and the others have
// room, it gets no ranks of the next epoch, because a core that is always wrong would spoil it,
// too.
void Leader::drain_wrong_host() {
  const std::vector<std::string> wrong = hosts_named_by(*corruption_);
  if (wrong.size() != 1) return;
  for (int host = 0; host < hosts_.size(); ++host) {
    if (hosts_.at(host).name() != wrong.front() || !hosts_.is_usable(host)) continue;
    if (!has_room_without(host)) continue;
    drain(host, "it has computed wrong numbers", "other hosts take its ranks");
  }
}

// True if a larger layout fits into so many slots.
bool Leader::could_grow(int64_t num_slots) const {
  if (processes_.leaves_lost_out) return false;
  const auto most = int(std::min<int64_t>(num_slots, processes_.ranks));
  const auto larger = processes_.fitting(most, *page_);
  return larger && larger->layout && larger->layout->num_ranks() > place_.size;
}

// The greatest number of ranks that the next epoch may have.
int Leader::most_ranks() const {
  const auto survivors = std::count_if(ranks_.begin(), ranks_.end(), [&](const JobRank& rank) {
    return rank.is_alive() && hosts_.is_usable(rank.host);
  });
  const bool counts_survivors =
      processes_.leaves_lost_out && !(is_takeover_ && former_.has_lost_all_ranks);
  const int64_t most = counts_survivors ? survivors : hosts_.num_slots();
  return int(std::min<int64_t>(most, processes_.ranks));
}

// True once it is known which layout the next epoch has, or that none fits.
bool Leader::has_found_layout() {
  next_layout_ = processes_.fitting(most_ranks(), *page_);
  return next_layout_.has_value();
}

// True if the next epoch needs hosts that are no members yet.
bool Leader::must_wait_for_members() const {
  if (is_takeover_ || hosts_.num_waiting_slots() == 0) return false;
  return could_grow(hosts_.num_slots() + hosts_.num_waiting_slots());
}

}  // namespace trireme
