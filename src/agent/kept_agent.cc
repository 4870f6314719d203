#include "agent/kept_agent.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <vector>

#include "agent/rank_exit_code.h"
#include "base/clock.h"
#include "comm/tcp/socket.h"

namespace trireme {
namespace {

constexpr double kOrphansS = 60.0;  // for processes that were killed to end
constexpr int kOrphanLookMs = 2;
constexpr int64_t kWindowNs = 3'600'000'000'000;
constexpr size_t kMostWithoutStep = 3;  // deaths of agents

struct AgentDeath {
  int64_t time_ns = 0;
  int64_t step = 0;  // the furthest one before it
};

std::string end_text(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("ended with exit code {}", WEXITSTATUS(status));
  return fmt::format("was killed by signal {} ({})", WTERMSIG(status),
                     ::strsignal(WTERMSIG(status)));
}

// The processes whose parent is this one. Those of an agent that has died are among them.
std::vector<int> own_children() {
  std::ifstream file(fmt::format("/proc/self/task/{}/children", ::getpid()));
  std::vector<int> pids;
  for (int pid = 0; file >> pid;) pids.push_back(pid);
  return pids;
}

class Keeper {
 public:
  Keeper(const AgentWork& work, const KeptJob& job, const TakenSignals& signals)
      : work_(work), job_(job), signals_(signals) {}

  Result<RanksEnd> run() {
    // Ranks of an agent that has died become children of this process, which waits for their ends.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    while (true) {
      TRIREME_TRY_DONE(start());
      const int status = wait_for_agent();
      TRIREME_TRY_DONE(end_orphans());
      if (auto end = job_.record.end()) return told(std::move(*end));
      const std::string why = why_no_other(status);
      life_.former_end = end_text(status);
      if (!why.empty()) {
        return told(
            RanksEnd{.exit_code = kFailedExitCode,
                     .why_no_restart = fmt::format("the agent of the ranks {}; the run ends, "
                                                   "because {}",
                                                   life_.former_end, why)});
      }
      ++life_.number;
    }
  }

 private:
  Status start() {
    const int launcher = ::getpid();
    agent_ = ::fork();
    if (agent_ == 0) become_agent(launcher);
    if (agent_ > 0) return Done{};
    return Error{ErrorKind::Runtime,
                 fmt::format("an agent cannot be started: {}", std::strerror(errno))};
  }

  [[noreturn]] void become_agent(int launcher) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
    ::prctl(PR_SET_NAME, "trireme-agent");
    ::setpgid(0, 0);  // Ctrl-C reaches the launcher alone, which passes it on
    if (!has_lost_launcher(launcher)) job_.record.set_end(work_(life_));
    ::_exit(0);
  }

  int wait_for_agent() {
    int agent_status = 0;
    while (true) {
      take_signals();
      int status = 0;
      for (int pid = ::waitpid(-1, &status, WNOHANG); pid > 0;
           pid = ::waitpid(-1, &status, WNOHANG)) {
        if (pid != agent_) continue;
        agent_ = -1;
        agent_status = status;
      }
      if (agent_ < 0) return agent_status;
      pollfd entry{signals_.fd(), POLLIN, 0};
      ::poll(&entry, 1, -1);
    }
  }

  void take_signals() {
    while (const int signal = signals_.next()) {
      if (signal == SIGCHLD) continue;
      was_asked_to_stop_ = true;
      if (agent_ > 0) ::kill(agent_, signal);
    }
  }

  // Kills what the agent has left, and waits until all of it has ended: the ranks of two agents
  // must not write at the same time.
  Status end_orphans() {
    const Deadline deadline = Deadline::after(kOrphansS);
    while (true) {
      const int pid = ::waitpid(-1, nullptr, WNOHANG);
      if (pid < 0 && errno == ECHILD) return Done{};
      if (pid > 0) continue;
      const std::vector<int> children = own_children();
      for (const int child : children) ::kill(child, SIGKILL);
      if (deadline.left_ms() == 0) {
        return Error{
            ErrorKind::Runtime,
            fmt::format("{} processes of an agent that has ended were killed, but have not "
                        "ended in {} s; look at the disk or device that they use",
                        children.size(), kOrphansS)};
      }
      pollfd entry{signals_.fd(), POLLIN, 0};
      ::poll(&entry, 1, kOrphanLookMs);
      take_signals();
    }
  }

  // Notes the death of an agent. Returns why no other one follows; "": one does.
  std::string why_no_other(int status) {
    const AgentDeath death{.time_ns = monotonic_ns(), .step = job_.page.furthest_step};
    deaths_.push_back(death);
    if (!WIFSIGNALED(status)) return "it has not told the end of the job";
    if (job_.max_restarts == 0) return "--max-restarts is 0";
    if (was_asked_to_stop_) return "the run was asked to stop";
    if (job_.page.begun_ns == 0) return "training had not begun";
    const auto recent = std::count_if(deaths_.begin(), deaths_.end(), [&](const AgentDeath& one) {
      return death.time_ns - one.time_ns < kWindowNs;
    });
    if (recent > job_.max_restarts) {
      return fmt::format("--max-restarts = {} agents were started within an hour",
                         job_.max_restarts);
    }
    const auto without_step =
        std::count_if(deaths_.begin(), deaths_.end(),
                      [&](const AgentDeath& one) { return one.step >= death.step; });
    if (size_t(without_step) >= kMostWithoutStep) {
      return fmt::format("{} agents have ended in this way without a new step", without_step);
    }
    return "";
  }

  // The end with what the record and the page have of the job.
  Result<RanksEnd> told(Result<RanksEnd> end) const {
    if (!end.ok()) return end;
    end->failures = job_.record.failures();
    end->told_failures = job_.page.told_failures;
    end->is_told_here = true;
    return end;
  }

  const AgentWork& work_;
  const KeptJob& job_;
  const TakenSignals& signals_;
  AgentLife life_;
  int agent_ = -1;  // its process
  bool was_asked_to_stop_ = false;
  std::vector<AgentDeath> deaths_;
};

}  // namespace

Result<RanksEnd> keep_agent(const AgentWork& work, const KeptJob& job,
                            const TakenSignals& signals) {
  return Keeper(work, job, signals).run();
}

bool has_lost_launcher(int launcher) { return ::getppid() != launcher; }

}  // namespace trireme
