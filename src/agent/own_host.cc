#include "agent/own_host.h"

#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "agent/process_stat.h"

namespace trireme {

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
  TRIREME_TRY(rank, start_rank({.command = command_,
                                .place = place,
                                .ranks_on_host = ranks_on_host,
                                .page = page_.fd(),
                                .memory_folder = memory_folder_,
                                .mask = mask_}));
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

std::vector<ProcessNews> OwnHost::take_news() {
  std::vector<ProcessNews> news = std::exchange(started_, {});
  for (auto it = processes_.begin(); it != processes_.end();) {
    auto& [number, process] = *it;
    int status = 0;
    const bool has_ended = waitpid(process.pid, &status, WNOHANG) == process.pid;
    add_reports(number, process, news);
    if (has_ended) {
      news.push_back({.kind = ProcessNews::Kind::Ended,
                      .process = number,
                      .status = status,
                      .error_output = error_output_of(process)});
      close_descriptors(process);
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
}

}  // namespace trireme
