#include "agent/mpirun_host.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <tuple>
#include <utility>

#include "agent/place_variables.h"
#include "agent/process_stat.h"
#include "agent/rank_exit_code.h"
#include "agent/rank_process.h"
#include "base/new_program.h"
#include "comm/fabric.h"
#include "comm/tcp/socket.h"

namespace trireme {
namespace {

// From the death of a rank to that of the others: mpirun must see first who has died first, because
// it alone learns how.
constexpr int64_t kFirstDeathNs = 50'000'000;
constexpr int64_t kEndNs = 2'000'000'000;  // for mpirun to end once its ranks have ended
constexpr double kDestroyS = 2.0;
constexpr int kSignalOffset = 128;
constexpr int kNotFound = 127;

// mpirun ends with the exit code of the rank that has failed first, or with 128 and the number of
// its signal. A rank that was stopped and has saved ends with the code 130 itself.
int status_of(int mpirun_status) {
  if (!WIFEXITED(mpirun_status)) return mpirun_status;
  const int code = WEXITSTATUS(mpirun_status);
  const bool is_signal = code > kSignalOffset && code != kStoppedExitCode;
  return is_signal ? code - kSignalOffset : mpirun_status;
}

void close_if_open(int& fd) {
  if (fd >= 0) ::close(std::exchange(fd, -1));
}

void write_error(const char* text) { (void)!::write(STDERR_FILENO, text, std::strlen(text)); }

// Runs in the child process, where nothing may be allocated.
[[noreturn]] void become_mpirun(const NewProgram& program, const char* name, const sigset_t& mask) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setpgid(0, 0);  // Ctrl-C reaches the ranks through their agent
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  program.become();
  const char* const why = ::strerrordesc_np(errno);
  for (const char* text : {"error: ", name, " cannot be started: ", why,
                           "; install Open MPI, or name the command with --mpirun\n"}) {
    write_error(text);
  }
  ::_exit(kNotFound);
}

}  // namespace

MpirunHost::~MpirunHost() {
  end_all();
  if (pid_ > 0 && !await_end(pid_, Deadline::after(kDestroyS))) {
    ::kill(pid_, SIGKILL);
    await_end(pid_, Deadline::after(kDestroyS));
  }
  for (auto* processes : {&processes_, &next_}) {
    for (auto& [number, process] : *processes) {
      close_if_open(process.socket);
      close_if_open(process.pidfd);
    }
  }
}

Status MpirunHost::start(int64_t process, const TcpPlace& place, int) {
  if (place.rank == 0) next_.clear();
  next_[process] = {.rank = place.rank, .epoch = place.epoch};
  next_size_ = place.size;
  return Done{};
}

// Starts mpirun once all processes of the next epoch have joined. If it cannot be started, its
// ranks count as failed.
void MpirunHost::launch_if_complete(std::vector<ProcessNews>& news) {
  if (pid_ > 0 || next_.empty() || int(next_.size()) < next_size_) return;
  processes_ = std::exchange(next_, {});
  ending_ns_ = 0;
  has_told_mpirun_ = false;
  std::vector<std::string> words = mpirun_;
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  words.insert(words.end(), {"-n", std::to_string(next_size_), program.string()});
  words.insert(words.end(), command_.begin() + 1, command_.end());
  const uint64_t epoch = processes_.begin()->second.epoch;
  const NewProgram child(words, {{kAgentVariable, door_.name()},
                                 {kAgentEpochVariable, std::to_string(epoch)},
                                 {kMemoryFolderVariable, memory_folder_}});
  pid_ = fork();
  if (pid_ == 0) become_mpirun(child, words.front().c_str(), mask_);
  if (pid_ > 0) return;
  const std::string why = std::strerror(errno);
  const size_t first = news.size();
  tell_ends(kFailedExitCode << 8, news);  // the status with which waitpid reports this exit code
  if (first < news.size()) {
    news[first].error_output =
        fmt::format("error: {} cannot be started: {}\n", mpirun_.front(), why);
  }
}

void MpirunHost::send_order(int64_t number, const EpochOrder& order) {
  for (auto* processes : {&processes_, &next_}) {
    const auto found = processes->find(number);
    if (found == processes->end()) continue;
    Process& process = found->second;
    if (process.socket < 0) {
      process.orders.push_back(order);
    } else {
      ::send(process.socket, &order, sizeof order, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }
}

// A rank that has not come yet gets its signals later, unless it is to be killed.
void MpirunHost::send_signal(int64_t number, int signal) {
  const auto found = processes_.find(number);
  if (found == processes_.end()) {
    if (signal == SIGKILL) next_.erase(number);
    return;
  }
  Process& process = found->second;
  if (process.pid > 0) {
    if (process.died_ns == 0) ::kill(process.pid, signal);
  } else if (signal == SIGKILL) {
    end_all();
  } else {
    process.signals.push_back(signal);
  }
}

void MpirunHost::send_no_order(int64_t number) {
  const auto found = processes_.find(number);
  if (found == processes_.end()) return;
  found->second.was_told_to_end = true;
  close_if_open(found->second.socket);
}

void MpirunHost::greet(const MpirunVisitor& visitor, std::vector<ProcessNews>& news) {
  const auto found = std::find_if(processes_.begin(), processes_.end(), [&](const auto& entry) {
    const Process& process = entry.second;
    return process.rank == visitor.rank.rank && process.epoch == visitor.rank.epoch &&
           process.pid < 0 && !process.was_told_to_end;
  });
  const bool is_wanted = found != processes_.end() && visitor.rank.size == next_size_ &&
                         give_page(visitor, page_.fd());
  if (!is_wanted) {
    ::close(visitor.socket);
    return;
  }
  auto& [number, process] = *found;
  process.socket = visitor.socket;
  process.pid = visitor.pid;
  process.pidfd = int(::syscall(SYS_pidfd_open, visitor.pid, 0));
  for (const EpochOrder& order : std::exchange(process.orders, {})) send_order(number, order);
  for (const int signal : std::exchange(process.signals, {})) ::kill(process.pid, signal);
  news.push_back({.kind = ProcessNews::Kind::Started, .process = number, .pid = process.pid});
}

void MpirunHost::look(int64_t number, Process& process, std::vector<ProcessNews>& news) {
  RankReport report;
  while (process.socket >= 0) {
    const ssize_t got = ::recv(process.socket, &report, sizeof report, MSG_DONTWAIT);
    if (got == 0) close_if_open(process.socket);
    if (got != ssize_t(sizeof report)) break;
    report.text[sizeof report.text - 1] = '\0';
    process.waits = process.waits || report.kind == RankReport::Kind::Waiting;
    process.has_failed = process.has_failed || report.kind == RankReport::Kind::Failed;
    news.push_back({.kind = ProcessNews::Kind::Report, .process = number, .report = report});
  }
  if (process.pid < 0 || process.died_ns > 0) return;
  pollfd entry{process.pidfd, POLLIN, 0};
  const auto stat = stat_of_process(process.pid);
  const bool has_died = process.pidfd >= 0 ? ::poll(&entry, 1, 0) > 0 : !stat;
  if (has_died) process.died_ns = steady_now_ns();
  const bool is_stopped = !has_died && stat && stat->is_stopped();
  if (is_stopped == process.is_stopped) return;
  process.is_stopped = is_stopped;
  const auto kind = is_stopped ? ProcessNews::Kind::Stopped : ProcessNews::Kind::Continued;
  news.push_back({.kind = kind, .process = number});
}

// Kills the ranks that are left once one has died without having done its work: the others have
// noticed it, or it has said so itself.
void MpirunHost::end_together() {
  const auto knows_of_failure = [](const auto& entry) {
    return entry.second.waits || entry.second.has_failed;
  };
  if (std::none_of(processes_.begin(), processes_.end(), knows_of_failure)) return;
  const int64_t now = steady_now_ns();
  const bool is_time = std::any_of(processes_.begin(), processes_.end(), [&](const auto& entry) {
    return entry.second.died_ns > 0 && now - entry.second.died_ns > kFirstDeathNs;
  });
  if (is_time) end_all();
}

void MpirunHost::kill_ranks() {
  for (auto& [number, process] : processes_) {
    if (process.pid > 0 && process.died_ns == 0) ::kill(process.pid, SIGKILL);
  }
}

// The agent kills the ranks that it knows. mpirun ends by itself then; only if it does not, or if a
// rank has never come, it is told to end. A signal in the middle of its own work may crash it.
void MpirunHost::end_all() {
  kill_ranks();
  if (pid_ <= 0) return;
  if (ending_ns_ == 0) ending_ns_ = steady_now_ns();
  const bool are_all_known = std::all_of(processes_.begin(), processes_.end(),
                                         [](const auto& entry) { return entry.second.pid > 0; });
  const int64_t waited_ns = steady_now_ns() - ending_ns_;
  if (waited_ns > 2 * kEndNs) {
    ::kill(pid_, SIGKILL);
  } else if (!has_told_mpirun_ && (!are_all_known || waited_ns > kEndNs)) {
    has_told_mpirun_ = true;
    ::kill(pid_, SIGTERM);
  }
}

// Ranks that have survived are not the cause. Else the one that has died first is, or one that has
// never come.
void MpirunHost::tell_ends(int status, std::vector<ProcessNews>& news) {
  std::vector<std::pair<int64_t, Process>> ended(processes_.begin(), processes_.end());
  const auto key = [](const Process& process) {
    return std::tuple(process.waits, !process.has_failed, process.died_ns == 0 && process.pid > 0,
                      process.died_ns, process.rank);
  };
  std::stable_sort(ended.begin(), ended.end(),
                   [&](const auto& a, const auto& b) { return key(a.second) < key(b.second); });
  for (auto& [number, process] : ended) {
    close_if_open(process.socket);
    close_if_open(process.pidfd);
    news.push_back({.kind = ProcessNews::Kind::Ended, .process = number, .status = status});
  }
  processes_.clear();
}

// The ranks are told to have ended once mpirun has: only then it is known how.
void MpirunHost::reap(std::vector<ProcessNews>& news) {
  if (pid_ <= 0) return;
  if (ending_ns_ > 0) end_all();
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return;
  pid_ = -1;
  // A rank that mpirun has left behind must not write beside the next epoch.
  kill_ranks();
  tell_ends(status_of(status), news);
}

std::vector<ProcessNews> MpirunHost::take_news() {
  std::vector<ProcessNews> news;
  launch_if_complete(news);
  for (const MpirunVisitor& visitor : door_.take_visitors()) greet(visitor, news);
  for (auto& [number, process] : processes_) look(number, process, news);
  end_together();
  reap(news);
  launch_if_complete(news);
  return news;
}

void MpirunHost::add_descriptors(std::vector<pollfd>& entries) const {
  entries.push_back({door_.fd(), POLLIN, 0});
  for (const auto& [number, process] : processes_) {
    if (process.socket >= 0) entries.push_back({process.socket, POLLIN, 0});
    if (process.pidfd >= 0 && process.died_ns == 0) entries.push_back({process.pidfd, POLLIN, 0});
  }
}

}  // namespace trireme
