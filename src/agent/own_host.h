#pragma once

#include <csignal>
#include <map>
#include <string>
#include <vector>

#include "agent/host_watch.h"
#include "agent/job_page.h"
#include "agent/rank_host.h"
#include "agent/rank_process.h"

namespace trireme {

// The ranks that this process has started on its own host. They are killed when it is destroyed.
class OwnHost : public RankHost {
 public:
  // `command` is started for every rank, which maps `page` and blocks the signals of `mask`. Both
  // references must outlive this object.
  OwnHost(std::string name, std::vector<std::string> command, const SharedJobPage& page,
          const sigset_t& mask)
      : name_(std::move(name)), command_(std::move(command)), page_(page), mask_(mask) {}
  ~OwnHost() override;
  // A folder for the checkpoints that its ranks keep in memory (MemoryFolder).
  void set_memory_folder(std::string path) { memory_folder_ = std::move(path); }
  // Sets the failure domain of this host (NamedHost::domain), which its ranks learn.
  void set_failure_domain(std::string domain) { failure_domain_ = std::move(domain); }
  // The address of this host at which its ranks are reached by those of other hosts; "": that by
  // which they reach the rendezvous.
  void set_interface(std::string host) { interface_ = std::move(host); }

  const std::string& name() const override { return name_; }
  Status start(int64_t process, const TcpPlace& place, int ranks_on_host) override;
  void send_order(int64_t process, const EpochOrder& order) override;
  void send_signal(int64_t process, int signal) override;
  void send_no_order(int64_t process) override;
  void share_page() override {}
  void set_writer(bool) override {}
  void hand_over_to(const std::string& host) override { heir_ = host; }
  bool has_handed_over() const override { return heir_.empty(); }
  // The host to which the agent shall give the parts in its memory; "": none.
  const std::string& heir() const { return heir_; }
  void note_handed_over() { heir_.clear(); }
  void drain() override { is_drained_ = true; }
  bool is_drained() const override { return is_drained_; }
  std::optional<std::vector<WatchedProcess>> take_watched() override {
    return watch_.take_watched();
  }
  void blame(int64_t process, const std::string& why) override { watch_.blame(process, why); }
  std::vector<ProcessNews> take_news() override;
  std::vector<LivingProcess> living() const override;
  void add_descriptors(std::vector<pollfd>& entries) const override;
  // Kills the processes that have not ended their epoch. take_news() tells of their ends.
  void kill_unless_waiting();
  // Evidence of failures is written into `run_dir` once the folder is that of this job. Earlier
  // jobs have left evidence of `kept_before` failures there (last_evidence_in).
  void set_run_folder(std::string run_dir, int kept_before);
  void keep_evidence(const JobFailure& failure, int number) override;

 private:
  struct Process : RankProcess {
    LivingProcess living;
  };
  Process* find(int64_t process);
  void add_reports(int64_t number, Process& process, std::vector<ProcessNews>& news);
  void add_end(int64_t number, Process& process, int status, std::vector<ProcessNews>& news);
  void add_watched(std::vector<ProcessNews>& news);

  std::string name_;
  std::vector<std::string> command_;
  const SharedJobPage& page_;
  const sigset_t& mask_;
  std::string memory_folder_;  // "": none
  std::string failure_domain_;
  std::string interface_;
  std::string heir_;
  std::string run_dir_;  // "": evidence is not kept
  int kept_before_ = 0;  // failures of which an earlier job has left evidence there
  HostWatch watch_;
  std::map<int64_t, Process> processes_;
  std::vector<ProcessNews> started_;  // not taken yet
  bool is_drained_ = false;
};

}  // namespace trireme
