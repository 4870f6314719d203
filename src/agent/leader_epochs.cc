// The leader chooses the layout, the ranks and the hosts of the next epoch.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "agent/leader.h"
#include "agent/place_ranks.h"
#include "agent/rank_epochs.h"
#include "agent/rank_exit_code.h"
#include "base/clock.h"

namespace trireme {
namespace {

constexpr double kTakeOverS = 15.0;  // for the ranks of the former membership to end their step

}  // namespace

int Leader::ranks_on(int host) const {
  return int(std::count_if(ranks_.begin(), ranks_.end(),
                           [&](const JobRank& rank) { return rank.host == host; }));
}

Status Leader::start_rank(int rank) {
  JobRank& own = ranks_[size_t(rank)];
  const int host = own.host;
  own = {.state = JobRank::State::Starting, .host = host, .process = ++num_processes_};
  place_.rank = rank;
  TRIREME_TRY_DONE(hosts_.at(host).start(own.process, place_, ranks_on(host)));
  return Done{};
}

// Processes of the newest epoch come first, so that those of older ones fill the gaps.
Status Leader::begin() {
  std::vector<std::pair<int, LivingProcess>> living;
  for (int host = 0; host < hosts_.size(); ++host) {
    for (const LivingProcess& process : hosts_.at(host).living()) living.push_back({host, process});
  }
  std::stable_sort(living.begin(), living.end(),
                   [](const auto& a, const auto& b) { return a.second.epoch > b.second.epoch; });
  if (living.empty() && !has_training_begun()) return begin_job();
  if (!living.empty()) {
    place_.epoch = living.front().second.epoch;
    ranks_.assign(size_t(living.front().second.size), JobRank{});
  }
  for (const auto& [host, process] : living) adopt(host, process);
  take_over();
  return Done{};
}

// Takes a process over as the rank that it was. A process that has not joined its epoch is killed,
// because it may wait for a leader that is gone. Before training begins, every process is killed,
// because there is nothing to keep.
void Leader::adopt(int host, const LivingProcess& process) {
  const auto rank = size_t(process.rank);
  const bool has_place = rank < ranks_.size() && !ranks_[rank].is_alive();
  if (!has_place) return hosts_.at(host).send_signal(process.process, SIGKILL);
  JobRank& own = ranks_[rank];
  own = {.state = JobRank::State::Joined,
         .host = host,
         .process = process.process,
         .pid = process.pid,
         .is_stopped = process.is_stopped != 0};
  if (process.state == LivingProcess::State::Waiting) own.state = JobRank::State::Waiting;
  if (process.state == LivingProcess::State::Starting || !has_training_begun()) {
    own.hangs = true;
    kill(own);
  }
}

// The former membership has ended the epoch on all hosts, so its ranks end or wait.
void Leader::take_over() {
  is_takeover_ = true;
  place_.size = int(ranks_.size());
  const auto lost = std::find_if(ranks_.begin(), ranks_.end(),
                                 [](const JobRank& rank) { return !rank.is_alive(); });
  if (lost != ranks_.end()) {
    lost->status = SIGKILL;
    first_failed_ = int(lost - ranks_.begin());
    end_.exit_code = kFailedExitCode;
    end_.first_failed = first_failed_;
    end_.why = name_of_end(*lost);
  }
  begin_settling();
  grace_ = Deadline::after(kTakeOverS);
}

// Starts all ranks for the first epoch of the job.
Status Leader::begin_job() {
  if (is_takeover_) place_.epoch = next_epoch();
  is_takeover_ = false;
  is_first_epoch_ = true;
  phase_ = Phase::Running;
  first_failed_ = -1;
  end_ = {};
  ranks_.assign(size_t(processes_.ranks), JobRank{});
  place_.size = processes_.ranks;
  const std::vector<int> nowhere(ranks_.size(), -1);
  const std::vector<int> hosts = place_ranks(hosts_.slots(), nowhere, nowhere);
  if (hosts.empty()) {
    return usage(
        fmt::format("{} ranks do not fit into the {} slots of the hosts; name more hosts "
                    "or more slots (HOST:SLOTS), or train with fewer ranks",
                    ranks_.size(), hosts_.num_slots()));
  }
  for (size_t rank = 0; rank < ranks_.size(); ++rank) ranks_[rank].host = hosts[rank];
  set_writer();
  for (int rank = 0; rank < int(ranks_.size()); ++rank) {
    TRIREME_TRY_DONE(start_rank(rank));
    JobRank& own = ranks_[size_t(rank)];
    hosts_.at(own.host).send_order(own.process, order_of(rank));
  }
  gather();
  return Done{};
}

void Leader::set_writer() {
  for (int host = 0; host < hosts_.size(); ++host) {
    hosts_.at(host).set_writer(host == ranks_.front().host);
  }
}

bool Leader::is_epoch_wanted() const { return page_->wanted_epoch > place_.epoch; }

// True if ranks are on a host that is drained, or if the hosts have room for a larger layout now.
bool Leader::wants_other_hosts() const {
  const bool can_save = std::all_of(ranks_.begin(), ranks_.end(), [](const JobRank& rank) {
    return rank.state == JobRank::State::Joined;
  });
  if (!can_save || page_->trained_epoch != place_.epoch || num_signals_ > 0) return false;
  const bool must_leave = std::any_of(ranks_.begin(), ranks_.end(), [&](const JobRank& rank) {
    return !hosts_.is_usable(rank.host);
  });
  return must_leave || could_grow(hosts_.num_slots() + hosts_.num_waiting_slots());
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
  const int64_t most = processes_.leaves_lost_out ? survivors : hosts_.num_slots();
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

// The ranks save after their step and wait for the next epoch.
void Leader::ask_for_epoch() {
  if (is_epoch_wanted()) return;
  page_->wanted_epoch = place_.epoch + 1;
  hosts_.share_page();
}

// Gives the ranks of the next epoch their numbers and hosts.
Status Leader::lay_out() {
  if (!next_layout_->layout) return Error{ErrorKind::Runtime, next_layout_->note};
  const int size = next_layout_->layout->num_ranks();
  std::vector<JobRank> next;
  const auto keeps = [&](const JobRank& rank) {
    return rank.is_alive() && hosts_.is_usable(rank.host);
  };
  const bool keeps_numbers = size == place_.size;
  for (JobRank& rank : ranks_) {
    const bool has_place = keeps(rank) && int(next.size()) < size;
    if (rank.is_alive() && !has_place) kill(rank);
    if (has_place || keeps_numbers) next.push_back(has_place ? rank : JobRank{.host = rank.host});
  }
  next.resize(size_t(size));
  std::vector<int> kept, before;
  for (const JobRank& rank : next) {
    kept.push_back(rank.is_alive() ? rank.host : -1);
    before.push_back(rank.host);
  }
  const std::vector<int> hosts = place_ranks(hosts_.slots(), kept, before);
  if (hosts.empty()) return Error{ErrorKind::Runtime, "the hosts have too few slots"};
  for (size_t rank = 0; rank < next.size(); ++rank) next[rank].host = hosts[rank];
  ranks_ = std::move(next);
  layout_ = *next_layout_->layout;
  place_.size = size;
  return Done{};
}

void Leader::add_failures(EpochOrder& order) const {
  const std::vector<JobFailure>& failures = policy_.failures();
  order.num_failures = int(failures.size());
  order.first_failure_number = int(page_->told_failures) + 1;
  std::string lines;
  for (int number = order.first_failure_number; number <= order.num_failures; ++number) {
    lines += failure_line(failures[size_t(number - 1)], number);
  }
  // If not all failures fit, the last ones are kept.
  while (lines.size() >= sizeof order.failures) lines.erase(0, lines.find('\n') + 1);
  std::memcpy(order.failures, lines.data(), lines.size());
}

EpochOrder Leader::order_of(int rank) const {
  EpochOrder order = times_;
  order.epoch = place_.epoch;
  order.rendezvous.fill('\0');
  place_.rendezvous.copy(order.rendezvous.data(), order.rendezvous.size() - 1);
  order.is_first = is_first_epoch_ ? 1 : 0;
  order.rank = rank;
  order.size = place_.size;
  order.layout = layout_;
  order.ranks_on_host = ranks_on(ranks_[size_t(rank)].host);
  order.made_ns = steady_now_ns();
  if (rank == 0) add_failures(order);
  return order;
}

// Every membership begins with a number above those of all former ones.
uint64_t Leader::next_epoch() const {
  return is_takeover_ ? std::max(place_.epoch + 1, first_rank_epoch(former_.membership))
                      : place_.epoch + 1;
}

Status Leader::begin_epoch() {
  gathering_.reset();
  const bool is_planned = is_takeover_ ? former_.is_planned : is_epoch_wanted();
  const std::string who = first_failed_ >= 0 ? fmt::format("rank {} {}", first_failed_, end_.why)
                          : is_planned       ? "other hosts were wanted"
                          : is_takeover_     ? former_.what
                                             : "ranks waited in vain";
  const EpochLayout before = layout_;
  TRIREME_TRY_DONE(lay_out());
  place_.epoch = next_epoch();
  is_first_epoch_ = false;
  is_takeover_ = false;
  hosts_.share_page();
  set_writer();  // a host that begins to write has the page of the job by now
  int num_new = 0;
  for (int rank = 0; rank < int(ranks_.size()); ++rank) {
    JobRank& own = ranks_[size_t(rank)];
    if (!own.is_alive()) {
      TRIREME_TRY_DONE(start_rank(rank));
      ++num_new;
    }
    own.state = JobRank::State::Starting;
    own.cause.clear();
    hosts_.at(own.host).send_order(own.process, order_of(rank));
  }
  gather();
  std::string layout;
  if (layout_ != before) {
    layout = fmt::format(", in the layout {}", text_of(layout_));
    if (!next_layout_->note.empty()) layout += fmt::format(" ({})", next_layout_->note);
  }
  say(fmt::format("after step {}, {}; epoch {} resumes with {} rank{}, {} of them new{}",
                  times_.lost_step, who, place_.epoch, place_.size, place_.size == 1 ? "" : "s",
                  num_new, layout));
  end_ = {};
  first_failed_ = -1;
  phase_ = Phase::Running;
  grace_.reset();
  return Done{};
}

}  // namespace trireme
