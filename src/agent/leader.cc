#include "agent/leader.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "agent/rank_epochs.h"
#include "agent/rank_exit_code.h"
#include "base/clock.h"
#include "comm/fabric.h"

namespace trireme {
namespace {

constexpr double kEndGraceS = 15.0;   // for the other ranks after one has failed
constexpr double kStartGraceS = 0.5;  // before the ranks have met, they cannot end by themselves
constexpr double kHangGraceS = 1.5;   // after a deadline, for every rank to notice it
constexpr int64_t kProcessesOfMembership = int64_t{1} << 20;

}  // namespace

int JobRank::signal() const { return WIFSIGNALED(status) ? WTERMSIG(status) : 0; }

int JobRank::exit_code() const {
  return WIFSIGNALED(status) ? kFailedExitCode : WEXITSTATUS(status);
}

bool JobRank::has_failed() const {
  return state == State::Ended && exit_code() != 0 && exit_code() != kStoppedExitCode;
}

Leader::Leader(const RankProcesses& processes, JobHosts& hosts,
               std::optional<Rendezvous> rendezvous, const std::string& secret, SharedJobPage& page,
               FormerJob former)
    : processes_(processes),
      hosts_(hosts),
      rendezvous_(std::move(rendezvous)),
      page_(page),
      ranks_(size_t(processes.ranks)),
      policy_(processes.max_restarts, processes.skips_bad_batches),
      former_(std::move(former)),
      place_{.rendezvous = rendezvous_ ? rendezvous_->address() : "",
             .secret = secret,
             .size = processes.ranks},
      layout_(processes.layout),
      num_processes_(former_.membership * kProcessesOfMembership) {
  place_.epoch = first_rank_epoch(former_.membership);
  for (const JobFailure& failure : former_.failures) policy_.note(failure);
  if (processes.status_file.empty()) return;
  // A damaged history is refused before the job begins. An error here must not end a running job.
  const std::string run_dir = std::filesystem::path(processes.status_file).parent_path().string();
  if (auto history = read_host_history(run_dir); history.ok()) history_ = std::move(*history);
}

void Leader::gather() {
  join_deadline_ = Deadline::after(processes_.start_timeout_s);
  if (rendezvous_) {
    gathering_.emplace(*rendezvous_, place_.epoch, place_.size, processes_.start_timeout_s);
  }
}

bool Leader::have_met() const {
  if (rendezvous_) return gathering_ && gathering_->has_met();
  return std::none_of(ranks_.begin(), ranks_.end(),
                      [](const JobRank& rank) { return rank.state == JobRank::State::Starting; });
}

bool Leader::have_not_met() const {
  if (rendezvous_) return gathering_ && gathering_->has_failed();
  return !have_met() && join_deadline_.left_ms() == 0;
}

bool Leader::has_waited_for_ranks(double seconds) const {
  const bool is_waiting = phase_ == Phase::Running && !is_first_epoch_ &&
                          std::any_of(ranks_.begin(), ranks_.end(), [](const JobRank& rank) {
                            return rank.state == JobRank::State::Starting;
                          });
  return is_waiting && join_deadline_.left_ms() * 1e-3 < processes_.start_timeout_s - seconds;
}

bool Leader::all_have_ended() const {
  return std::none_of(ranks_.begin(), ranks_.end(),
                      [](const auto& rank) { return rank.is_alive(); });
}

void Leader::ask_to_stop(int signal) {
  last_signal_ = signal;
  ++num_signals_;
}

// In a later epoch, a signal would end a starting rank before it can save. It gets the first signal
// once it has joined. The second signal is passed on at once, because it ends the run without
// saving.
void Leader::pass_signals() {
  for (JobRank& rank : ranks_) {
    const bool must_defer =
        rank.state == JobRank::State::Starting && !is_first_epoch_ && num_signals_ == 1;
    if (!rank.is_alive() || must_defer) continue;
    for (; rank.signals < num_signals_; ++rank.signals) {
      hosts_.at(rank.host).send_signal(rank.process, last_signal_);
    }
  }
}

// News of a process that is no rank any more is dropped.
void Leader::take_news() {
  for (int host = 0; host < hosts_.size(); ++host) {
    for (ProcessNews& news : hosts_.at(host).take_news()) {
      const auto rank = std::find_if(ranks_.begin(), ranks_.end(), [&](const JobRank& other) {
        return other.process == news.process && other.is_alive();
      });
      if (rank == ranks_.end()) continue;
      switch (news.kind) {
        case ProcessNews::Kind::Started:
          rank->pid = news.pid;
          break;
        case ProcessNews::Kind::Report:
          take_report(*rank, news.report);
          break;
        case ProcessNews::Kind::Stopped:
        case ProcessNews::Kind::Continued:
          rank->is_stopped = news.kind == ProcessNews::Kind::Stopped;
          break;
        case ProcessNews::Kind::Ended:
          rank->status = news.status;
          rank->error_output = std::move(news.error_output);
          note_end(*rank);
          break;
      }
    }
  }
}

void Leader::take_report(JobRank& rank, const RankReport& report) {
  if (report.kind == RankReport::Kind::Failed) rank.cause = report.text;
  if (report.kind == RankReport::Kind::Corrupt && report.epoch == place_.epoch) {
    take_corruption(report);
  }
  if (report.kind == RankReport::Kind::Hangs) {
    rank.cause = report.text;
    rank.hangs = true;
    note_first_failure(rank);  // its peers may end before it does
  }
  if (report.kind == RankReport::Kind::Evidence) take_evidence(report.text, rank.evidence);
  if (report.kind == RankReport::Kind::Slow) note_slow(rank, report.text);
  if (report.epoch != place_.epoch && !is_takeover_) return;
  if (report.kind == RankReport::Kind::Joined) rank.state = JobRank::State::Joined;
  if (report.kind == RankReport::Kind::Waiting) {
    rank.state = JobRank::State::Waiting;
    rank.words = report.text;
  }
}

// Its own host and all hosts together may both find that a rank is slow.
void Leader::note_slow(JobRank& rank, const std::string& ratio) {
  if (rank.slow > 0.0) return;
  rank.slow = std::atof(ratio.c_str());
  say(
      fmt::format("rank {} on host {} is slow: without waits, it computes {} times as long as the "
                  "ranks of its stage",
                  &rank - ranks_.data(), host_of(rank), ratio));
}

// Every host judges its own ranks. Here those are judged that hold up, or are slower than, ranks of
// other hosts.
void Leader::take_watched() {
  if (hosts_.size() < 2) return;
  const int64_t now_ns = monotonic_ns();
  for (int host = 0; host < hosts_.size(); ++host) {
    if (auto watched = hosts_.at(host).take_watched()) {
      watch_.take(host, now_ns, std::move(*watched));
    }
  }
  if (phase_ != Phase::Running) return;
  for (const SlowRank& slow : watch_.take_slow(place_.size)) {
    if (slow.rank >= int(ranks_.size())) continue;
    JobRank& rank = ranks_[size_t(slow.rank)];
    if (rank.is_alive()) note_slow(rank, fmt::format("{:.2f}", slow.ratio));
  }
  if (const auto verdict = watch_.look(now_ns)) {
    hosts_.at(verdict->host).blame(verdict->process, verdict->why);
  }
}

// The first rank that fails decides how the run has ended; a rank that has saved after a signal has
// not failed.
void Leader::note_end(JobRank& rank) {
  rank.state = JobRank::State::Ended;
  if (rank.is_dismissed) return;
  const int code = rank.exit_code();
  if (code == kStoppedExitCode && end_.exit_code == 0) end_.exit_code = kStoppedExitCode;
  if (!rank.has_failed()) return;
  if (num_signals_ > 1) {
    end_.exit_code = kFailedExitCode;
  } else {
    note_first_failure(rank);
  }
}

void Leader::begin_settling() {
  phase_ = Phase::Settling;
  was_asked_to_stop_ = num_signals_ > 0;
  times_ = {
      .lost_step = page_->step, .lost_step_ns = page_->step_ns, .detected_ns = steady_now_ns()};
  must_start_settle_ = have_not_met();
  if (is_first_epoch_ && have_not_met() && first_failed_ < 0) {
    not_met_ = rendezvous_ ? gathering_->error()
                           : Error{ErrorKind::Runtime, "the ranks have not joined in time"};
  }
  const bool is_waited_for = first_failed_ >= 0 || is_epoch_wanted();
  const double usual_s = is_waited_for ? kEndGraceS : kHangGraceS;
  const bool goes_on = processes_.max_restarts > 0 && !is_first_epoch_;
  grace_ = Deadline::after(have_met() || goes_on ? usual_s : kStartGraceS);
}

// True once every rank has ended or waits for the next epoch. Ranks that do not answer are killed,
// and so are those of drained hosts: the next epoch must not find rank 0 of this one alive, which
// holds the folder of the run.
bool Leader::have_settled() {
  bool settled = true;
  for (JobRank& rank : ranks_) {
    const bool is_awaited = rank.state == JobRank::State::Joined ||
                            (rank.state == JobRank::State::Starting && must_start_settle_);
    const bool must_kill = rank.is_stopped || (is_awaited && grace_->left_ms() == 0);
    if (rank.is_alive() && !rank.hangs && must_kill) {
      rank.hangs = true;
      kill(rank);
    }
    const bool waits = rank.state == JobRank::State::Waiting;
    if (waits && !rank.is_dismissed && !hosts_.is_usable(rank.host)) {
      rank.is_dismissed = true;
      kill(rank);
    }
    settled = settled && !is_awaited && !((rank.hangs || rank.is_dismissed) && rank.is_alive());
  }
  return settled;
}

void Leader::begin_ending(double grace_s) {
  phase_ = Phase::Ending;
  is_takeover_ = false;
  grace_ = Deadline::after(grace_s);
  for (const JobRank& rank : ranks_) {
    if (rank.is_alive()) hosts_.at(rank.host).send_no_order(rank.process);
  }
}

// Every rank has ended or waits: begins the next epoch, or ends the run.
void Leader::decide() {
  times_.classified_ns = steady_now_ns();
  if (is_takeover_ && !has_training_begun()) {
    const Status begun = begin_job();
    if (begun.ok()) return;
    not_met_ = begun.error();
    return begin_ending(kStartGraceS);
  }
  const bool is_planned =
      first_failed_ < 0 && (is_takeover_ ? former_.is_planned : is_epoch_wanted());
  std::string why_end;
  if (is_takeover_ && !is_planned && processes_.max_restarts > 0) {
    policy_.note(failure());
  } else if (!is_planned) {
    why_end = policy_.why_end(failure());
  }
  if (!is_planned && !policy_.failures().empty()) keep_evidence();
  const bool may_stop_later = is_takeover_ && !is_planned;
  if (why_end.empty() && !may_stop_later && (was_asked_to_stop_ || num_signals_ > 0)) {
    why_end = "the run was asked to stop";
  }
  if (why_end.empty() && is_planned && must_wait_for_members()) {
    phase_ = Phase::WaitingForMembers;
    return;
  }
  if (why_end.empty()) {
    const Status begun = begin_epoch();
    if (begun.ok()) return;
    why_end = begun.error().message;
  }
  if (is_planned) return begin_ending(kEndGraceS);  // the ranks have saved
  end_.why_no_restart = why_end;
  if (end_.exit_code == 0 || end_.exit_code == kStoppedExitCode) end_.exit_code = kFailedExitCode;
  begin_ending(kEndGraceS);
}

void Leader::look() {
  const auto is_waiting = [](const JobRank& rank) { return rank.state == JobRank::State::Waiting; };
  if (phase_ == Phase::Running) {
    const bool is_trouble = first_failed_ >= 0 || have_not_met() ||
                            std::any_of(ranks_.begin(), ranks_.end(), is_waiting);
    if (is_trouble) begin_settling();
  }
  if (phase_ == Phase::Running && !is_epoch_wanted()) {
    drain_failing_hosts();
    why_wanted_ = wanted_change();
    if (!why_wanted_.empty()) ask_for_epoch();
  }
  const bool is_last_failure = processes_.max_restarts == 0 && !is_epoch_wanted() && !is_takeover_;
  if (phase_ == Phase::Settling && is_last_failure) {
    policy_.why_end(failure());
    keep_evidence();
    begin_ending(grace_->left_ms() * 1e-3);
  }
  const bool may_learn = is_takeover_ && !former_.is_planned && !has_read_summary_;
  if (phase_ == Phase::Settling && may_learn && have_settled()) learn_corruption();
  if (phase_ == Phase::Settling && corruption_) drain_wrong_host();
  if (phase_ == Phase::Settling && have_settled() && has_found_layout() && have_parts_moved()) {
    decide();
  }
  if (phase_ == Phase::Ending && grace_->left_ms() == 0) {
    for (JobRank& rank : ranks_) {
      if (rank.is_alive()) kill(rank);
    }
  }
}

void Leader::turn() {
  pass_signals();
  take_news();
  take_watched();
  if (!is_over()) look();
  report(is_over());
}

bool Leader::is_over() const {
  if (!all_have_ended() || is_takeover_) return false;
  return phase_ == Phase::Ending || (phase_ == Phase::Running && first_failed_ < 0);
}

// After a second signal, all ranks have ended at once without saving.
int Leader::exit_code() const {
  const bool is_cut_off =
      num_signals_ > 1 && end_.exit_code != 0 && end_.exit_code != kStoppedExitCode;
  return is_cut_off ? kFailedExitCode : end_.exit_code;
}

Result<RanksEnd> Leader::end() {
  if (not_met_) return *not_met_;
  end_.exit_code = exit_code();
  if (num_signals_ > 1) end_.first_failed = -1;
  end_.failures = policy_.failures();
  end_.told_failures = page_->told_failures;
  return end_;
}

}  // namespace trireme
