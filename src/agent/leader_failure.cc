// How the leader names and classifies the failure with which an epoch has ended.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "agent/leader.h"
#include "agent/rank_exit_code.h"
#include "agent/summary_alarm.h"
#include "base/clock.h"

namespace trireme {

// A rank knows its host by the name of the machine, and the job by the name that the user has
// given.
void Leader::take_corruption(const RankReport& report) {
  FailureEvidence evidence;
  take_evidence(report.text, evidence);
  if (evidence.corruption) take_alarm(std::move(*evidence.corruption));
}

void Leader::take_alarm(CorruptionAlarm alarm) {
  std::erase_if(alarm.ranks, [&](const CorruptionAlarm::NamedRank& one) {
    return one.rank < 0 || one.rank >= int(ranks_.size());
  });
  for (CorruptionAlarm::NamedRank& one : alarm.ranks) {
    const JobRank& rank = ranks_[size_t(one.rank)];
    if (rank.host >= 0) one.host = host_of(rank);
  }
  corruption_ = std::move(alarm);
}

// The ranks may have told only the former leader of the alarm with which they ended. They write it
// to the summary of the run before they end. An alarm that is already among the failures is an old
// one.
void Leader::learn_corruption() {
  has_read_summary_ = true;
  if (corruption_ || processes_.status_file.empty() || page_->begun_ns == 0) return;
  const double age_s = double(steady_now_ns() - page_->begun_ns) * 1e-9;
  std::optional<CorruptionAlarm> alarm = alarm_of_summary(
      std::filesystem::path(processes_.status_file).parent_path().string(), unix_time_s() - age_s);
  if (!alarm) return;
  for (const JobFailure& failure : policy_.failures()) {
    const auto& known = failure.evidence.corruption;
    if (known && known->check == alarm->check && known->step == alarm->step) return;
  }
  take_alarm(std::move(*alarm));
}

std::string Leader::name_of_end(const JobRank& rank) const {
  const int signal = rank.signal();
  return rank.host < 0 ? fmt::format("was on host {}, which {}", host_of(rank), former_.lost_why)
         : rank.hangs  ? "did not answer and was killed"
         : signal != 0 ? fmt::format("was killed by signal {} ({})", signal, strsignal(signal))
                       : fmt::format("ended with exit code {}", rank.exit_code());
}

std::string Leader::host_of(const JobRank& rank) const {
  return rank.host < 0 ? former_.lost_host : hosts_.at(rank.host).name();
}

void Leader::note_first_failure(const JobRank& rank) {
  const int index = int(&rank - ranks_.data());
  if (first_failed_ >= 0 && first_failed_ != index) return;
  first_failed_ = index;
  end_.exit_code = rank.hangs ? kFailedExitCode : rank.exit_code();
  end_.first_failed = index;
  end_.why = name_of_end(rank);
  end_.error_output = rank.error_output;
}

JobFailure Leader::failure() const {
  JobFailure failure{.rank = first_failed_,
                     .epoch = place_.epoch,
                     .step = times_.lost_step,
                     .furthest_step = page_->furthest_step,
                     .kind = "lost",
                     .what = is_takeover_ ? former_.what
                                          : "no rank has died, but ranks waited for each other in "
                                            "vain",
                     .host = processes_.host,
                     .time_s = unix_time_s()};
  if (page_->resumed_epoch == place_.epoch) {
    failure.resumed_step = page_->resumed_step;
    failure.older_step = page_->older_step;
  }
  if (times_.lost_step_ns > 0) {
    failure.detected_after_s = double(times_.detected_ns - times_.lost_step_ns) * 1e-9;
  }
  if (first_failed_ < 0) {
    failure.evidence.kind = failure.kind;
    for (const JobRank& rank : ranks_) {
      if (!rank.words.empty()) failure.evidence.peers_words.push_back(rank.words);
    }
    return classified(std::move(failure));
  }
  const JobRank& rank = ranks_[size_t(first_failed_)];
  const int signal = rank.signal();
  const bool is_killed = signal == SIGKILL || signal == SIGTERM || signal == SIGINT;
  failure.kind = rank.host < 0 ? "host"
                 : rank.hangs  ? "hang"
                 : is_killed   ? "killed"
                 : signal != 0 ? "crashed"
                               : "failed";
  failure.what = end_.why;
  failure.host = host_of(rank);
  failure.exit_code = rank.hangs ? kFailedExitCode : rank.exit_code();
  if (signal == 0 || rank.hangs) failure.cause = rank.cause;
  failure.evidence = rank.evidence;
  failure.evidence.kind = failure.kind;
  if (corruption_ && failure.kind == "failed") blame_corrupt(failure);
  failure.evidence.signal = rank.hangs ? 0 : signal;
  if (signal == 0 && rank.host >= 0) failure.evidence.exit_code = rank.exit_code();
  return classified(std::move(failure));
}

// All ranks fail with what the check has found, so the one that has ended first is not the one that
// was wrong.
void Leader::blame_corrupt(JobFailure& failure) const {
  failure.evidence.corruption = corruption_;
  const std::vector<CorruptionAlarm::NamedRank>& named = corruption_->ranks;
  if (!corruption_->is_certain || named.size() != 1) return;
  failure.rank = named.front().rank;
  failure.host = named.front().host;
}

// If a rank has left no last words, the cause of its end takes their place. After a takeover, the
// lost rank need not be the one that computed wrong numbers.
JobFailure Leader::classified(JobFailure failure) const {
  if (is_takeover_ && corruption_) failure.evidence.corruption = corruption_;
  if (!processes_.classify) return failure;
  FailureEvidence evidence = failure.evidence;
  evidence.last_words = cause_of(failure);
  failure.found = processes_.classify(evidence);
  return failure;
}

// All hosts keep evidence of the failure that was recorded last.
void Leader::keep_evidence() {
  const std::vector<JobFailure>& all = policy_.failures();
  for (int host = 0; host < hosts_.size(); ++host) {
    hosts_.at(host).keep_evidence(all.back(), int(all.size()));
  }
}

}  // namespace trireme
