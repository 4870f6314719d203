// The leader starts the ranks, takes them over, and begins the next epoch.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "agent/leader.h"
#include "agent/place_ranks.h"
#include "agent/rank_epochs.h"
#include "agent/rank_exit_code.h"
#include "failures/evidence_json.h"

namespace trireme {
namespace {

constexpr double kTakeOverS = 15.0;  // for the ranks of the former membership to end their step
constexpr double kHandOverS = 60.0;  // for hosts without ranks to give away their parts

// The class of the last failure, if the evidence names one, and who computed wrong numbers.
std::string class_text(const std::vector<JobFailure>& failures) {
  if (failures.empty()) return "";
  const FailureClass last = failures.back().found.failure_class;
  const auto& corruption = failures.back().evidence.corruption;
  return fmt::format(
      "{}{}", last == FailureClass::Unknown ? "" : fmt::format(" (class: {})", name_of(last)),
      corruption ? ", because " + corruption_text(*corruption) : "");
}

// Says what the job does differently after the last failure; "": nothing.
std::string remedy_text(const std::vector<JobFailure>& failures) {
  if (failures.empty()) return "";
  const JobFailure& last = failures.back();
  if (last.is_left_out) return fmt::format("; {} are left out", samples_text(last.evidence));
  if (last.goes_back_to < 0) return "";
  return fmt::format("; it goes back to a checkpoint of step {} or earlier, because {}",
                     last.goes_back_to, last.why_back);
}

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
  } else if (page_->trained_epoch > 0) {
    place_.epoch = page_->trained_epoch;  // of the ranks that are gone
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
  corruption_.reset();
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

// The ranks save after their step and wait for the next epoch.
void Leader::ask_for_epoch() {
  page_->wanted_epoch = place_.epoch + 1;
  hosts_.share_page();
}

// Survivors keep their processes, with the lowest numbers first.
Leader::Placement Leader::next_placement() const {
  const int size = next_layout_->layout->num_ranks();
  const auto keeps = [&](const JobRank& rank) {
    return rank.is_alive() && hosts_.is_usable(rank.host) && hosts_.at(rank.host).keeps_processes();
  };
  const bool keeps_numbers = size == place_.size;
  Placement next;
  for (const JobRank& rank : ranks_) {
    const bool has_place = keeps(rank) && int(next.ranks.size()) < size;
    if (has_place) next.ranks.push_back(rank);
    if (!has_place && keeps_numbers) next.ranks.push_back({.host = rank.host});
  }
  next.ranks.resize(size_t(size));
  std::vector<int> kept, before;
  for (const JobRank& rank : next.ranks) {
    kept.push_back(rank.is_alive() ? rank.host : -1);
    before.push_back(rank.host);
  }
  next.hosts = place_ranks(hosts_.slots(), kept, before);
  return next;
}

// Gives the ranks of the next epoch their numbers and hosts.
Status Leader::lay_out() {
  hand_over_.reset();
  if (!next_layout_->layout) return Error{ErrorKind::Runtime, next_layout_->note};
  Placement next = next_placement();
  if (next.hosts.empty()) return Error{ErrorKind::Runtime, "the hosts have too few slots"};
  for (JobRank& rank : ranks_) {
    const bool is_kept = std::any_of(
        next.ranks.begin(), next.ranks.end(),
        [&](const JobRank& other) { return other.is_alive() && other.process == rank.process; });
    if (rank.is_alive() && !is_kept) kill(rank);
  }
  for (size_t rank = 0; rank < next.ranks.size(); ++rank) {
    next.ranks[rank].host = next.hosts[rank];
  }
  ranks_ = std::move(next.ranks);
  layout_ = *next_layout_->layout;
  place_.size = next_layout_->layout->num_ranks();
  return Done{};
}

// Only ranks exchange parts of checkpoints in memory. So hosts on which none will be placed give
// theirs to hosts with ranks. Returns true once that is done, or has taken too long.
bool Leader::have_parts_moved() {
  if (!has_training_begun() || !next_layout_->layout) return true;
  const std::vector<int> slots = hosts_.slots();
  if (!hand_over_) {
    hand_over_ = Deadline::after(kHandOverS);
    const std::vector<int> next = next_placement().hosts;
    size_t heir = 0;
    for (int host = 0; host < hosts_.size() && !next.empty(); ++host) {
      const bool is_idle = std::find(next.begin(), next.end(), host) == next.end();
      if (slots[size_t(host)] == 0 || !is_idle) continue;
      hosts_.at(host).hand_over_to(hosts_.at(next[heir++ % next.size()]).name());
    }
  }
  if (hand_over_->left_ms() == 0) return true;
  for (int host = 0; host < hosts_.size(); ++host) {
    if (!hosts_.at(host).has_handed_over()) return false;
  }
  return true;
}

// Every membership begins with a number above those of all former ones.
uint64_t Leader::next_epoch() const {
  return is_takeover_ ? std::max(place_.epoch + 1, first_rank_epoch(former_.membership))
                      : place_.epoch + 1;
}

Status Leader::begin_epoch() {
  gathering_.reset();
  const bool is_planned = is_takeover_ ? former_.is_planned : is_epoch_wanted();
  const std::string who = first_failed_ >= 0 ? fmt::format("rank {} {}{}", first_failed_, end_.why,
                                                           class_text(policy_.failures()))
                          : is_takeover_     ? former_.what
                          : is_planned       ? why_wanted_
                                             : "ranks waited in vain";
  const std::string remedy = is_planned ? "" : remedy_text(policy_.failures());
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
    own.words.clear();
    own.slow = 0.0;
    hosts_.at(own.host).send_order(own.process, order_of(rank));
  }
  gather();
  std::string layout;
  if (layout_ != before) {
    layout = fmt::format(", in the layout {}", text_of(layout_));
    if (!next_layout_->note.empty()) layout += fmt::format(" ({})", next_layout_->note);
  }
  say(fmt::format("after step {}, {}; epoch {} resumes with {} rank{}, {} of them new{}{}",
                  times_.lost_step, who, place_.epoch, place_.size, place_.size == 1 ? "" : "s",
                  num_new, layout, remedy));
  end_ = {};
  first_failed_ = -1;
  corruption_.reset();
  watch_.begin_epoch();
  phase_ = Phase::Running;
  grace_.reset();
  return Done{};
}

}  // namespace trireme
