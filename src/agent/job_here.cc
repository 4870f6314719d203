#include "agent/job_here.h"

#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <optional>
#include <vector>

#include "agent/agent_record.h"
#include "agent/host_watch.h"
#include "agent/kept_agent.h"
#include "agent/leader.h"
#include "agent/mpirun_host.h"
#include "agent/own_host.h"

namespace trireme {
namespace {

constexpr int kLookMs = 50;

// The folder of the run has the status file; "" if there is none.
std::string folder_of(const std::string& status_file) {
  return status_file.empty() ? "" : std::filesystem::path(status_file).parent_path().string();
}

// A job on this host, as one of its agents runs it.
class JobHere {
 public:
  JobHere(const RankProcesses& processes, const std::string& secret, const TakenSignals& signals,
          SharedJobPage& page, const std::string& memory_folder, const AgentRecord& record)
      : processes_(processes),
        secret_(secret),
        signals_(signals),
        page_(page),
        memory_folder_(memory_folder),
        record_(record),
        launcher_(processes.launcher_pid),
        evidence_before_(last_evidence_in(folder_of(processes.status_file))) {}

  Result<RanksEnd> run(const AgentLife& life) const {
    Result<RanksEnd> end = processes_.mpirun.empty() ? run_ranks(life) : run_mpirun(life);
    if (has_lost_launcher(launcher_)) remove_memory_folder();
    return end;
  }

 private:
  Result<RanksEnd> run_ranks(const AgentLife& life) const {
    OwnHost here(processes_.host, processes_.command, page_, signals_.before());
    here.set_memory_folder(memory_folder_);
    here.set_run_folder(folder_of(processes_.status_file), evidence_before_);
    TRIREME_TRY(rendezvous, Rendezvous::open("127.0.0.1:0", secret_, processes_.log));
    return lead(here, std::move(rendezvous), life);
  }

  Result<RanksEnd> run_mpirun(const AgentLife& life) const {
    TRIREME_TRY(door, MpirunDoor::open());
    MpirunHost here(processes_.host, processes_.mpirun, processes_.command, std::move(door), page_,
                    signals_.before());
    here.set_memory_folder(memory_folder_);
    return lead(here, std::nullopt, life);
  }

  // The ranks of the former agent have died with it.
  FormerJob former_job(const AgentLife& life) const {
    FormerJob former{.membership = life.number, .failures = record_.failures()};
    if (life.former_end.empty()) return former;
    former.what = "the agent of this host " + life.former_end;
    former.lost_host = processes_.host;
    former.lost_why = "has lost its agent: it " + life.former_end;
    former.has_lost_all_ranks = true;
    return former;
  }

  Result<RanksEnd> lead(RankHost& here, std::optional<Rendezvous> rendezvous,
                        const AgentLife& life) const {
    JobHosts hosts;
    hosts.add(here, kLargestTcpWorld);
    FormerJob former = former_job(life);
    size_t recorded = former.failures.size();
    Leader leader(processes_, hosts, std::move(rendezvous), secret_, page_, std::move(former));
    TRIREME_TRY_DONE(leader.begin());
    while (true) {
      leader.turn();
      for (; recorded < leader.failures().size(); ++recorded) {
        record_.add(leader.failures()[recorded]);
      }
      if (leader.is_over()) return leader.end();
      std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0}};
      hosts.add_descriptors(entries);
      ::poll(entries.data(), entries.size(), kLookMs);
      if (has_lost_launcher(launcher_)) {
        return Error{ErrorKind::Runtime, "the launcher of the job was killed"};
      }
      while (const int signal = signals_.next()) {
        if (signal != SIGCHLD) leader.ask_to_stop(signal);
      }
    }
  }

  void remove_memory_folder() const {
    std::error_code ignored;
    if (!memory_folder_.empty()) std::filesystem::remove_all(memory_folder_, ignored);
  }

  const RankProcesses& processes_;
  const std::string& secret_;
  const TakenSignals& signals_;
  SharedJobPage& page_;
  const std::string& memory_folder_;
  const AgentRecord& record_;
  const int launcher_;
  const int evidence_before_;  // failures of which earlier jobs have left evidence
};

}  // namespace

Result<RanksEnd> run_job_here(const RankProcesses& processes, const std::string& secret,
                              const TakenSignals& signals, SharedJobPage& page,
                              const std::string& memory_folder) {
  TRIREME_TRY(record, AgentRecord::make());
  RankProcesses kept = processes;
  kept.launcher_pid = ::getpid();
  const JobHere job(kept, secret, signals, page, memory_folder, record);
  return keep_agent([&](const AgentLife& life) { return job.run(life); },
                    {record, *page, processes.max_restarts}, signals);
}

}  // namespace trireme
