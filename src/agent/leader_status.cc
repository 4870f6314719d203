// The leader tells users how the job is, and takes what they ask for.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "agent/job_status.h"
#include "agent/leader.h"
#include "agent/process_stat.h"
#include "agent/rank_exit_code.h"
#include "base/clock.h"
#include "comm/fabric.h"

namespace trireme {
namespace {

constexpr int64_t kReportNs = 1'000'000'000;  // between two reports of the status
constexpr size_t kMostReported = 10;          // failures

const char* name_of(JobRank::State state) {
  switch (state) {
    case JobRank::State::Starting:
      return "starting";
    case JobRank::State::Joined:
      return "training";
    case JobRank::State::Waiting:
      return "waiting";
    case JobRank::State::Ended:
      break;
  }
  return "ended";
}

}  // namespace

// Drains the hosts for which `trireme drain` has left a file, and stops the job for which `trireme
// stop` has left one.
void Leader::take_requests() {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(processes_.status_file).parent_path();
  std::error_code error;
  for (int host = 0; host < hosts_.size(); ++host) {
    const std::string& name = hosts_.at(host).name();
    if (!fs::remove(folder / (kDrainFile + name), error)) continue;
    hosts_.at(host).drain();
    say(fmt::format("host {} is drained: its ranks leave it after they have saved", name));
  }
  if (fs::remove(folder / kStopFile, error)) ask_to_stop(SIGTERM);
}

std::string Leader::how_ended() const {
  if (not_met_) return not_met_->message;
  if (exit_code() == 0) return "all steps are done";
  if (num_signals_ > 1) return "it was stopped at once";
  if (end_.first_failed < 0 && end_.why_no_restart.empty()) {
    return "it was asked to stop, and has saved";
  }
  std::string text = end_.first_failed < 0
                         ? "the ranks have ended"
                         : fmt::format("rank {} failed first: it {}", end_.first_failed, end_.why);
  if (!end_.why_no_restart.empty()) text += fmt::format("; {}", end_.why_no_restart);
  return text;
}

// Writes nothing before training begins, because the folder may still be that of another run.
void Leader::report(bool at_once) {
  if (processes_.status_file.empty() || page_->begun_ns == 0) return;
  const int64_t now = steady_now_ns();
  if (!at_once && now - reported_ns_ < kReportNs) return;
  reported_ns_ = now;
  take_requests();
  const auto own = stat_of_process(getpid());
  const auto launcher = stat_of_process(processes_.launcher_pid);
  JobStatus status{.agent_pid = getpid(),
                   .agent_start = own ? own->start : 0,
                   .launcher_pid = processes_.launcher_pid,
                   .launcher_start = launcher ? launcher->start : 0,
                   .host = processes_.host,
                   .state = all_have_ended()           ? "ended"
                            : phase_ == Phase::Running ? "running"
                                                       : "recovering",
                   .epoch = place_.epoch,
                   .step = page_->step,
                   .saved_step = page_->saved_step,
                   .memory_step = page_->memory_step,
                   .memory_redone = page_->memory_redone,
                   .time_s = unix_time_s()};
  if (is_over()) {
    status.exit_code = not_met_ ? kFailedExitCode : exit_code();
    status.end = how_ended();
  }
  std::vector<int> hosts;
  for (const JobRank& rank : ranks_) {
    hosts.push_back(rank.host);
    status.ranks.push_back(
        {host_of(rank), rank.is_alive() ? rank.pid : -1, name_of(rank.state), rank.slow});
  }
  status.hosts = hosts_.status(hosts);
  const std::vector<JobFailure>& failures = policy_.failures();
  const size_t first = failures.size() - std::min(failures.size(), kMostReported);
  for (size_t i = first; i < failures.size(); ++i) {
    std::string line = failure_line(failures[i], int(i) + 1);
    line.pop_back();  // the end of the line
    status.failures.push_back(std::move(line));
  }
  reported_ = text_of(status);
  write_status(processes_.status_file, reported_);
}

}  // namespace trireme
