#pragma once

#include <csignal>
#include <map>
#include <string>
#include <vector>

#include "agent/job_page.h"
#include "agent/mpirun_link.h"
#include "agent/rank_host.h"

namespace trireme {

// This host, on which mpirun starts the ranks and brings them together. Ranks of MPI cannot outlive
// each other: once one of them has failed, all are killed, and the next epoch starts all again.
// mpirun and its ranks are killed when this object is destroyed.
class MpirunHost : public RankHost {
 public:
  // `mpirun` and its options, then `command` for every rank, which blocks the signals of `mask`.
  // The references must outlive this object.
  MpirunHost(std::string name, std::vector<std::string> mpirun, std::vector<std::string> command,
             MpirunDoor door, const SharedJobPage& page, const sigset_t& mask)
      : name_(std::move(name)),
        mpirun_(std::move(mpirun)),
        command_(std::move(command)),
        door_(std::move(door)),
        page_(page),
        mask_(mask) {}
  ~MpirunHost() override;
  void set_memory_folder(std::string path) { memory_folder_ = std::move(path); }

  const std::string& name() const override { return name_; }
  // The ranks start together, once the places of all are known.
  Status start(int64_t process, const TcpPlace& place, int ranks_on_host) override;
  void send_order(int64_t process, const EpochOrder& order) override;
  void send_signal(int64_t process, int signal) override;
  void send_no_order(int64_t process) override;
  bool keeps_processes() const override { return false; }
  void share_page() override {}
  void set_writer(bool) override {}
  void drain() override { is_drained_ = true; }
  bool is_drained() const override { return is_drained_; }
  std::vector<ProcessNews> take_news() override;
  std::vector<LivingProcess> living() const override { return {}; }
  void add_descriptors(std::vector<pollfd>& entries) const override;

 private:
  struct Process {
    int rank = 0;
    uint64_t epoch = 1;
    int socket = -1;
    pid_t pid = -1;  // -1: it has not come yet
    int pidfd = -1;
    bool was_told_to_end = false;
    bool is_stopped = false;
    bool waits = false;        // it has survived the failure of another one
    bool has_failed = false;   // it has said why it ends
    int64_t died_ns = 0;       // 0: it lives
    std::vector<int> signals;  // that have come before it
    std::vector<EpochOrder> orders;
  };
  void launch_if_complete(std::vector<ProcessNews>& news);
  void greet(const MpirunVisitor& visitor, std::vector<ProcessNews>& news);
  void look(int64_t number, Process& process, std::vector<ProcessNews>& news);
  void end_together();
  void kill_ranks();
  void end_all();
  void reap(std::vector<ProcessNews>& news);
  void tell_ends(int status, std::vector<ProcessNews>& news);

  std::string name_;
  std::vector<std::string> mpirun_;
  std::vector<std::string> command_;
  MpirunDoor door_;
  const SharedJobPage& page_;
  const sigset_t& mask_;
  std::string memory_folder_;
  pid_t pid_ = -1;         // of mpirun
  int64_t ending_ns_ = 0;  // when the ranks were killed; 0: they were not
  bool has_told_mpirun_ = false;
  std::map<int64_t, Process> processes_;  // of this mpirun
  std::map<int64_t, Process> next_;       // of the next one
  int next_size_ = 0;
  bool is_drained_ = false;
};

}  // namespace trireme
