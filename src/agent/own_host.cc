#include "agent/own_host.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "agent/process_stat.h"
#include "agent/rank_exit_code.h"
#include "base/json_text.h"
#include "failures/evidence_json.h"

namespace trireme {
namespace {

// The reports that its agent makes about a rank.
ProcessNews report_about(int64_t process, const LivingProcess& living, RankReport::Kind kind,
                         const std::string& text) {
  ProcessNews news{.kind = ProcessNews::Kind::Report, .process = process};
  news.report.kind = kind;
  news.report.epoch = living.epoch;
  text.copy(news.report.text, sizeof news.report.text - 1);
  return news;
}

}  // namespace

OwnHost::~OwnHost() {
  for (auto& [number, process] : processes_) ::kill(process.pid, SIGKILL);
  for (auto& [number, process] : processes_) kill_rank(process);
}

void OwnHost::kill_unless_waiting() {
  for (auto& [number, process] : processes_) {
    if (process.living.state != LivingProcess::State::Waiting) ::kill(process.pid, SIGKILL);
  }
}

std::vector<LivingProcess> OwnHost::living() const {
  std::vector<LivingProcess> all;
  for (const auto& [number, process] : processes_) all.push_back(process.living);
  return all;
}

OwnHost::Process* OwnHost::find(int64_t process) {
  const auto found = processes_.find(process);
  return found == processes_.end() ? nullptr : &found->second;
}

Status OwnHost::start(int64_t process, const TcpPlace& place, int ranks_on_host) {
  TcpPlace here = place;
  here.host = interface_;
  TRIREME_TRY(rank, start_rank({.command = command_,
                                .place = here,
                                .ranks_on_host = ranks_on_host,
                                .page = page_.fd(),
                                .memory_folder = memory_folder_,
                                .failure_domain = failure_domain_,
                                .mask = mask_}));
  watch_.add(process, rank.pid, rank.pages);
  processes_[process] = {rank,
                         {.process = process,
                          .epoch = place.epoch,
                          .pid = rank.pid,
                          .rank = place.rank,
                          .size = place.size}};
  started_.push_back({.kind = ProcessNews::Kind::Started, .process = process, .pid = rank.pid});
  return Done{};
}

void OwnHost::send_order(int64_t process, const EpochOrder& order) {
  Process* const rank = find(process);
  if (rank == nullptr) return;
  rank->living.take(order);
  trireme::send_order(*rank, order);
}

void OwnHost::send_signal(int64_t process, int signal) {
  if (const Process* rank = find(process)) ::kill(rank->pid, signal);
}

void OwnHost::send_no_order(int64_t process) {
  Process* const rank = find(process);
  if (rank != nullptr && rank->socket >= 0) ::close(std::exchange(rank->socket, -1));
}

void OwnHost::add_reports(int64_t number, Process& process, std::vector<ProcessNews>& news) {
  while (const auto report = next_report(process)) {
    process.living.take(*report);
    news.push_back({.kind = ProcessNews::Kind::Report, .process = number, .report = *report});
  }
}

// A rank that hangs is killed here. The evidence stands in its report before its end does.
void OwnHost::add_watched(std::vector<ProcessNews>& news) {
  for (const HangingRank& hanging : watch_.take_hanging()) {
    const Process* const process = find(hanging.process);
    if (process == nullptr) continue;
    news.push_back(
        report_about(hanging.process, process->living, RankReport::Kind::Hangs, hanging.why));
    ::kill(process->pid, SIGKILL);
  }
  for (const SlowRank& slow : watch_.take_slow()) {
    for (const auto& [number, process] : processes_) {
      if (process.living.rank != slow.rank) continue;
      news.push_back(report_about(number, process.living, RankReport::Kind::Slow,
                                  fmt::format("{:.2f}", slow.ratio)));
    }
  }
}

void OwnHost::add_end(int64_t number, Process& process, int status,
                      std::vector<ProcessNews>& news) {
  const bool has_failed =
      !WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != kStoppedExitCode);
  const FailureEvidence evidence = watch_.remove(number, has_failed);
  if (has_failed) {
    // Text that is not UTF-8 comes from the kernel at most, and is replaced.
    const std::string text = lenient_json_text(evidence_json(evidence));
    if (text.size() < sizeof RankReport::text) {
      news.push_back(report_about(number, process.living, RankReport::Kind::Evidence, text));
    }
  }
  news.push_back({.kind = ProcessNews::Kind::Ended,
                  .process = number,
                  .status = status,
                  .error_output = error_output_of(process)});
  close_descriptors(process);
}

void OwnHost::set_run_folder(std::string run_dir, int kept_before) {
  run_dir_ = std::move(run_dir);
  kept_before_ = kept_before;
}

// Before training begins, the folder may be that of another run, unless rank 0 holds it.
void OwnHost::keep_evidence(const JobFailure& failure, int number) {
  const bool is_own = page_->begun_ns != 0 || page_->holds_folder != 0;
  if (run_dir_.empty() || !is_own) return;
  const bool is_elsewhere = failure.host != name_;
  const std::string folder = evidence_folder(run_dir_, kept_before_ + number);
  watch_.keep_evidence(is_elsewhere ? folder + "/" + name_ : folder, failure_line(failure, number));
}

std::vector<ProcessNews> OwnHost::take_news() {
  std::vector<ProcessNews> news = std::exchange(started_, {});
  add_watched(news);
  for (auto it = processes_.begin(); it != processes_.end();) {
    auto& [number, process] = *it;
    int status = 0;
    const bool has_ended = waitpid(process.pid, &status, WNOHANG) == process.pid;
    add_reports(number, process, news);
    if (has_ended) {
      add_end(number, process, status, news);
      it = processes_.erase(it);
      continue;
    }
    const auto stat = stat_of_process(process.pid);
    const bool is_stopped = stat && stat->is_stopped();
    if (is_stopped != (process.living.is_stopped != 0)) {
      const auto kind = is_stopped ? ProcessNews::Kind::Stopped : ProcessNews::Kind::Continued;
      news.push_back({.kind = kind, .process = number});
    }
    process.living.is_stopped = is_stopped ? 1 : 0;
    ++it;
  }
  return news;
}

void OwnHost::add_descriptors(std::vector<pollfd>& entries) const {
  for (const auto& [number, process] : processes_) {
    if (process.socket >= 0) entries.push_back({process.socket, POLLIN, 0});
  }
  entries.push_back({watch_.fd(), POLLIN, 0});
}

}  // namespace trireme
