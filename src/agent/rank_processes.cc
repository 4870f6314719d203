#include "agent/rank_processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "agent/place_variables.h"

namespace trireme {
namespace {

constexpr int kRankFailed = 5;        // exit code, as of ErrorKind::Runtime
constexpr int kStopped = 130;         // exit code of a rank that has saved after a signal
constexpr double kEndGraceS = 15.0;   // for the other ranks after one has failed
constexpr double kStartGraceS = 0.5;  // before the ranks have met, they cannot end by themselves
constexpr int64_t kMostOutput = 64 << 10;

struct RankProcess {
  pid_t pid = -1;       // -1: it has ended
  int error_file = -1;  // its standard error; -1: that of this process
};

// The signals that this process takes one by one while it exists. Its threads inherit the mask.
class TakenSignals {
 public:
  TakenSignals() {
    sigemptyset(&taken_);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD}) sigaddset(&taken_, signal);
    pthread_sigmask(SIG_BLOCK, &taken_, &before_);
  }
  ~TakenSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  TakenSignals(const TakenSignals&) = delete;
  TakenSignals& operator=(const TakenSignals&) = delete;

  // Returns 0 if none comes within the time.
  int next(int64_t most_ns) const {
    const timespec timeout{most_ns / 1'000'000'000, most_ns % 1'000'000'000};
    return std::max(0, sigtimedwait(&taken_, nullptr, &timeout));
  }
  const sigset_t& before() const { return before_; }

 private:
  sigset_t taken_;
  sigset_t before_;
};

// Owns the processes of the ranks.
class Agent {
 public:
  explicit Agent(const RankProcesses& processes)
      : processes_(processes), ranks_(size_t(processes.ranks)) {}
  ~Agent();

  Result<RanksEnd> run();

 private:
  Status start(TcpPlace place);
  [[noreturn]] void become_rank(const TcpPlace& place, int error_file) const;
  void signal_all(int signal) const;
  void reap();  // notes the ranks that have ended
  void note_end(int rank, int status);
  bool all_have_ended() const;
  std::string error_output_of(int rank) const;

  const RankProcesses& processes_;
  std::vector<RankProcess> ranks_;
  TakenSignals signals_;
  RanksEnd end_;
};

Agent::~Agent() {
  signal_all(SIGKILL);
  for (RankProcess& rank : ranks_) {
    if (rank.pid > 0) waitpid(rank.pid, nullptr, 0);
    if (rank.error_file >= 0) ::close(rank.error_file);
  }
}

// Runs in the child. The ranks have process groups of their own, so that Ctrl-C reaches them once,
// through this agent.
void Agent::become_rank(const TcpPlace& place, int error_file) const {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setpgid(0, 0);
  pthread_sigmask(SIG_SETMASK, &signals_.before(), nullptr);
  if (error_file >= 0) dup2(error_file, STDERR_FILENO);
  for (const auto& [name, value] : variables_of(place)) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& word : processes_.command) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  execv("/proc/self/exe", arguments.data());
  ::_exit(kRankFailed);
}

Status Agent::start(TcpPlace place) {
  for (int rank = 0; rank < processes_.ranks; ++rank) {
    RankProcess& process = ranks_[size_t(rank)];
    if (rank > 0) process.error_file = memfd_create("trireme-errors", MFD_CLOEXEC);
    place.rank = rank;
    process.pid = fork();
    if (process.pid == 0) become_rank(place, process.error_file);
    if (process.pid < 0) {
      return Error{ErrorKind::Runtime,
                   fmt::format("rank {} cannot be started: {}", rank, std::strerror(errno))};
    }
  }
  return Done{};
}

void Agent::signal_all(int signal) const {
  for (const RankProcess& rank : ranks_) {
    if (rank.pid > 0) kill(rank.pid, signal);
  }
}

bool Agent::all_have_ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank.pid < 0; });
}

std::string Agent::error_output_of(int rank) const {
  const int file = ranks_[size_t(rank)].error_file;
  if (file < 0) return "";
  std::string text(static_cast<size_t>(kMostOutput), '\0');
  const ssize_t bytes = pread(file, text.data(), text.size(), 0);
  text.resize(size_t(std::max<ssize_t>(bytes, 0)));
  return text;
}

// The first rank that fails decides how the run has ended; a rank that has saved after a signal has
// not failed.
void Agent::note_end(int rank, int status) {
  const bool is_killed = WIFSIGNALED(status);
  const int code = is_killed ? kRankFailed : WEXITSTATUS(status);
  const bool is_failed = code != 0 && code != kStopped;
  if (code == kStopped && end_.exit_code == 0) end_.exit_code = kStopped;
  if (!is_failed || end_.first_failed >= 0) return;
  end_.exit_code = code;
  end_.first_failed = rank;
  end_.why = is_killed ? fmt::format("was killed by signal {} ({})", WTERMSIG(status),
                                     strsignal(WTERMSIG(status)))
                       : fmt::format("ended with exit code {}", code);
  end_.error_output = error_output_of(rank);
}

void Agent::reap() {
  for (int rank = 0; rank < processes_.ranks; ++rank) {
    RankProcess& process = ranks_[size_t(rank)];
    int status = 0;
    if (process.pid < 0 || waitpid(process.pid, &status, WNOHANG) != process.pid) continue;
    process.pid = -1;
    note_end(rank, status);
  }
}

Result<RanksEnd> Agent::run() {
  TcpPlace place{.secret = fresh_secret(), .size = processes_.ranks};
  TRIREME_TRY(rendezvous, Rendezvous::open("127.0.0.1:0", place.secret, processes_.log));
  place.rendezvous = rendezvous.address();
  TRIREME_TRY_DONE(start(place));
  std::atomic<bool> is_cancelled{false};
  std::atomic<bool> is_gathered{false};
  Status gathered = Done{};
  std::thread gatherer([&] {
    gathered = rendezvous.gather(place.epoch, place.size,
                                 Deadline::after(processes_.start_timeout_s), is_cancelled);
    is_gathered = true;
  });
  std::optional<Deadline> grace;
  bool have_not_met = false;  // and no rank has failed before
  while (!all_have_ended()) {
    const int signal = signals_.next(50'000'000);
    if (signal != 0 && signal != SIGCHLD) signal_all(signal);
    reap();
    const bool have_met = is_gathered && gathered.ok();
    const bool has_failed = end_.first_failed >= 0;
    if (!grace && (has_failed || (is_gathered && !have_met))) {
      grace = Deadline::after(have_met ? kEndGraceS : kStartGraceS);
    }
    if (!grace || grace->left_ms() > 0) continue;
    have_not_met = have_not_met || (!have_met && !has_failed);
    signal_all(SIGKILL);
  }
  is_cancelled = true;
  gatherer.join();
  if (have_not_met) return gathered.error();
  return end_;
}

}  // namespace

Result<RanksEnd> run_rank_processes(const RankProcesses& processes) {
  return Agent(processes).run();
}

}  // namespace trireme
