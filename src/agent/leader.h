#pragma once

#include <csignal>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/gathering.h"
#include "agent/host_history.h"
#include "agent/job_hosts.h"
#include "agent/rank_processes.h"
#include "watch/job_watch.h"

namespace trireme {

// A rank of the running epoch, as the leader sees it.
struct JobRank {
  enum class State {
    Starting,  // it has not joined the epoch yet
    Joined,
    Waiting,  // it has survived the end of the epoch, and waits for the next one
    Ended,
  };
  State state = State::Ended;
  int host = -1;              // index of JobHosts; -1: its host has left the job
  int64_t process = 0;        // number of its process in the job
  int pid = -1;               // on its host
  int status = 0;             // of waitpid, once it has ended
  bool is_stopped = false;    // by SIGSTOP
  bool hangs = false;         // it was killed because it has not answered
  bool is_dismissed = false;  // it was killed because its host is drained, which is no failure
  int signals = 0;            // number of signals that were passed on to it
  std::string cause;          // the last message of a rank that has failed
  std::string error_output;   // of a rank that has ended
  FailureEvidence evidence;   // of its end, as its agent has seen it
  std::string words;          // why it waits for the next epoch
  double slow = 0.0;          // its compute time by that of others; 0: it is not slow

  bool is_alive() const { return state != State::Ended; }
  bool has_failed() const;  // it has ended, not well, and not because it was asked to stop
  int exit_code() const;    // of a process that has ended; 5 if a signal has killed it
  int signal() const;       // that has killed it; 0: none
};

// How a leader finds the job when its membership begins.
struct FormerJob {
  int64_t membership = 1;            // of this leader
  std::vector<JobFailure> failures;  // before this membership
  bool is_planned = false;           // the ranks have saved for this membership
  std::string what;                  // what ended the former membership, if that was not planned
  std::string lost_host;             // a host that has left; "": none
  std::string lost_why = "is gone";  // continues "which"
  // The ranks have died with the agent of the only host, so all are started again, even if lost
  // ranks are left out.
  bool has_lost_all_ranks = false;
};

// Decides for all ranks of a job while the membership of its hosts does not change: it starts them
// on the hosts, brings each epoch together, looks for failures, and begins the next epoch or ends
// the job. Ranks that live already are taken over. A leader may end before its ranks do; then
// another one takes them over. No function waits.
class Leader {
 public:
  // The references must outlive this object.
  // Without a rendezvous, something else brings the ranks together (MpirunHost).
  Leader(const RankProcesses& processes, JobHosts& hosts, std::optional<Rendezvous> rendezvous,
         const std::string& secret, SharedJobPage& page, FormerJob former = {});
  Leader(const Leader&) = delete;
  Leader& operator=(const Leader&) = delete;

  Status begin();
  // Does what is due. The owner calls it whenever something may have happened.
  void turn();
  // The user has sent a signal that asks the job to stop.
  void ask_to_stop(int signal);
  // True once all ranks have ended for good.
  bool is_over() const;
  Result<RanksEnd> end();
  // True once the ranks have saved and wait, because hosts that are no members yet are needed.
  bool needs_members() const { return phase_ == Phase::WaitingForMembers; }
  // True if no rank has died, but the ranks have ended their epoch because of each other.
  bool has_waited_in_vain() const {
    return phase_ == Phase::Settling && first_failed_ < 0 && !is_takeover_ && !is_epoch_wanted();
  }
  // True if ranks of a later epoch than the first have not joined it for so many seconds.
  bool has_waited_for_ranks(double seconds) const;
  const std::vector<JobFailure>& failures() const { return policy_.failures(); }
  // The status that it has written last (text_of(JobStatus)); "": none, before training begins.
  const std::string& reported() const { return reported_; }

 private:
  enum class Phase {
    Running,
    Settling,  // the epoch is over, and its ranks end or wait
    WaitingForMembers,
    Ending,  // the job is over
  };

  // In leader.cc: it starts the ranks and looks for failures.
  void gather();
  bool have_met() const;
  bool have_not_met() const;
  void pass_signals();
  void take_news();
  void take_report(JobRank& rank, const RankReport& report);
  void take_watched();
  void note_slow(JobRank& rank, const std::string& ratio);
  void note_end(JobRank& rank);
  void look();
  void begin_settling();
  bool have_settled();
  void decide();
  void begin_ending(double grace_s);
  void kill(JobRank& rank) { hosts_.at(rank.host).send_signal(rank.process, SIGKILL); }
  bool all_have_ended() const;
  int exit_code() const;

  // In leader_failure.cc: it says what has failed.
  void take_corruption(const RankReport& report);
  void take_alarm(CorruptionAlarm alarm);
  void learn_corruption();
  void note_first_failure(const JobRank& rank);
  JobFailure failure() const;
  void blame_corrupt(JobFailure& failure) const;
  JobFailure classified(JobFailure failure) const;
  void keep_evidence();
  std::string name_of_end(const JobRank& rank) const;
  std::string host_of(const JobRank& rank) const;

  // In leader_hosts.cc: it chooses the hosts of the next epoch.
  bool is_epoch_wanted() const;
  bool could_grow(int64_t num_slots) const;
  bool must_wait_for_members() const;
  std::string wanted_change() const;
  void drain_failing_hosts();
  void drain_wrong_host();
  void drain(int host, const std::string& why, const std::string& what_follows);
  bool has_room_without(int host) const;
  int most_ranks() const;
  bool has_found_layout();

  // In leader_epochs.cc: it starts ranks, takes them over, and begins the next epoch.
  Status begin_job();
  void take_over();
  void adopt(int host, const LivingProcess& process);
  bool has_training_begun() const { return page_->begun_ns != 0; }
  uint64_t next_epoch() const;
  void ask_for_epoch();
  struct Placement {
    std::vector<JobRank> ranks;  // of the next epoch; those with a living process keep it
    std::vector<int> hosts;      // of these ranks; empty: there are too few slots
  };
  Placement next_placement() const;
  bool have_parts_moved();
  Status begin_epoch();
  Status lay_out();
  Status start_rank(int rank);
  void set_writer();
  int ranks_on(int host) const;

  // In leader_orders.cc: it tells the ranks what to do.
  EpochOrder order_of(int rank) const;
  void add_failures(EpochOrder& order) const;
  void add_left_out(EpochOrder& order) const;
  void add_clean_step(EpochOrder& order) const;

  // In leader_status.cc: it reports to users.
  void report(bool at_once);
  std::string how_ended() const;
  void take_requests();
  void say(const std::string& text) const {
    if (processes_.log) processes_.log(text);
  }

  const RankProcesses& processes_;
  JobHosts& hosts_;
  std::optional<Rendezvous> rendezvous_;
  SharedJobPage& page_;
  std::vector<JobRank> ranks_;
  RestartPolicy policy_;
  std::vector<HostFailure> history_;  // failures of earlier jobs in the folder of the run
  std::set<std::string> failing_;     // hosts that fail often and were reported to the user
  std::map<std::string, std::string> why_drained_;  // [host] the reason
  const FormerJob former_;
  TcpPlace place_;
  bool is_first_epoch_ = false;  // the job begins with the running epoch
  bool is_takeover_ = false;     // until the first epoch of this leader begins
  EpochLayout layout_;
  std::optional<FittingLayout> next_layout_;  // of the next epoch, once it is found
  // While hosts without ranks in the next epoch give their parts of checkpoints to others.
  std::optional<Deadline> hand_over_;
  int64_t num_processes_ = 0;  // started so far
  Phase phase_ = Phase::Running;
  JobWatch watch_;
  std::optional<Gathering> gathering_;  // absent without a rendezvous
  Deadline join_deadline_;
  std::optional<Deadline> grace_;
  bool must_start_settle_ = false;             // ranks that are still starting must report, too
  int first_failed_ = -1;                      // of this epoch
  std::optional<CorruptionAlarm> corruption_;  // with which this epoch has ended
  bool has_read_summary_ = false;              // for an alarm of the former membership
  int last_signal_ = 0;
  bool was_asked_to_stop_ = false;  // before the failure
  int num_signals_ = 0;             // that ask the ranks to stop
  EpochOrder times_;
  std::string why_wanted_;        // why the ranks were asked to save for another epoch
  std::optional<Error> not_met_;  // the ranks of the first epoch have never met
  int64_t reported_ns_ = 0;
  std::string reported_;
  RanksEnd end_;
};

}  // namespace trireme
