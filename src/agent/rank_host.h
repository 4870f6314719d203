#pragma once

#include <poll.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/job_failure.h"
#include "agent/rank_link.h"
#include "base/result.h"
#include "comm/tcp/rendezvous.h"
#include "watch/blame.h"

namespace trireme {

// One event of a process. A process has a number that no other process of the job ever has.
struct ProcessNews {
  enum class Kind : int32_t {
    Started,
    Report,
    Stopped,    // by SIGSTOP, so it answers nothing
    Continued,  // after it was stopped
    Ended,      // the last one of a process
  };
  Kind kind = Kind::Started;
  int64_t process = 0;
  int pid = -1;                   // of Started, on its host
  int status = 0;                 // of Ended, as waitpid tells it
  RankReport report = {};         // of Report
  std::string error_output = {};  // of Ended; not that of a process which was rank 0 at its start
};

// A process that has not ended, as its agent describes it to a leader that takes over the job.
struct LivingProcess {
  enum class State : int32_t {
    Starting,  // it has not joined the epoch yet
    Joined,
    Waiting,  // it waits for the next epoch
  };
  int64_t process = 0;
  uint64_t epoch = 0;  // of its last order
  int32_t pid = -1;
  int32_t rank = 0;  // in this epoch
  int32_t size = 1;  // of this epoch
  State state = State::Starting;
  int32_t is_stopped = 0;
  int32_t reserved = 0;

  void take(const EpochOrder& order);
  void take(const RankReport& report);
};

// A host on which ranks of a job run, as the leader of the job sees it. No function waits.
class RankHost {
 public:
  virtual ~RankHost() = default;
  virtual const std::string& name() const = 0;

  // Starts a process with the place of a rank.
  virtual Status start(int64_t process, const TcpPlace& place, int ranks_on_host) = 0;
  virtual void send_order(int64_t process, const EpochOrder& order) = 0;
  virtual void send_signal(int64_t process, int signal) = 0;
  // Tells the process that no order will come, so that it ends if it waits for one.
  virtual void send_no_order(int64_t process) = 0;
  // False if processes that survive the loss of another one cannot train in the next epoch.
  virtual bool keeps_processes() const { return true; }
  // Gives the host the page of the leader. Hosts that share its memory need not be told.
  virtual void share_page() = 0;
  // From now on, changes of the host's page are those of the job if `is_writer`, because rank 0
  // runs there.
  virtual void set_writer(bool is_writer) = 0;
  // Ranks leave the host with the next epoch.
  // Asks the host, on which no rank will be placed, to give its parts of checkpoints in memory to
  // the other host.
  virtual void hand_over_to(const std::string& /*host*/) {}
  virtual bool has_handed_over() const { return true; }  // or it has failed to
  virtual void drain() = 0;
  virtual bool is_drained() const = 0;

  // Writes what is known about a failure into the folder of the run. Another host does so when it
  // is told of the failure.
  virtual void keep_evidence(const JobFailure& /*failure*/, int /*number*/) {}

  // What its agent has seen of its ranks since the last call; nullopt: nothing new.
  virtual std::optional<std::vector<WatchedProcess>> take_watched() { return std::nullopt; }
  // The process holds up ranks of other hosts, so it is killed once evidence was collected.
  virtual void blame(int64_t /*process*/, const std::string& /*why*/) {}

  virtual std::vector<ProcessNews> take_news() = 0;
  virtual std::vector<LivingProcess> living() const = 0;
  // Adds the descriptors that become readable when there is news.
  virtual void add_descriptors(std::vector<pollfd>& entries) const = 0;
};

}  // namespace trireme
