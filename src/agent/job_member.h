#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/agent_wire.h"
#include "agent/coord_worker.h"
#include "agent/job_hosts.h"
#include "agent/leader.h"
#include "agent/leader_link.h"
#include "agent/own_host.h"
#include "agent/parts_transfer.h"
#include "agent/peer_probe.h"
#include "agent/rank_processes.h"
#include "agent/remote_host.h"
#include "agent/status_askers.h"
#include "agent/taken_signals.h"
#include "comm/tcp/handshake.h"
#include "coord/membership_agent.h"

namespace trireme {

// The options that one agent brings into a job on several hosts.
struct MemberOptions {
  JobTerms terms;
  std::string name;         // of this host in the job
  int slots = 0;            // for ranks; 0: this agent only takes part in decisions
  std::string domain = {};  // failure domain of this host (NamedHost)
  std::string host;         // name of this host for users
  std::string secret;
  JobLayouts layouts = {};
  std::string memory_folder = {};  // for the checkpoints of its ranks (MemoryFolder); "": none
  ClassifyFailure classify = {};
  TcpLog log = {};
  TcpLog note = {};
  bool is_launcher = false;  // signals stop the job; else they drain this host
  std::function<void()> on_turn = {};
};

// The agent of one host in a job on several hosts. It takes part in the membership protocol, runs
// the ranks of its host, and does for them what the leader orders. While it leads itself, it has a
// Leader. The members that follow connect to it.
class JobMember {
 public:
  // Other agents come to `reception`, and `visitors` have come before. The signals and the page
  // must outlive this object.
  JobMember(MemberOptions options, Reception reception,
            std::vector<std::unique_ptr<RemoteHost>> visitors, std::unique_ptr<Coord> coord,
            const TakenSignals& signals, SharedJobPage& page);
  JobMember(const JobMember&) = delete;
  JobMember& operator=(const JobMember&) = delete;

  // Returns once the job is over, or once this agent must leave it.
  Result<RanksEnd> run();

 private:
  // In job_member.cc: it waits for events and gives them to the protocol.
  void wait();
  void take_signals();
  void take_answers();
  void take_visitors();
  void answer_askers();
  StatusAnswer status_answer() const;
  void greet_member(RemoteHost& member);
  void take_from_members();
  void tick();
  void follow(const MembershipEffects& effects);
  void follow(const SendMessage& sent);
  void follow(const CallCoord& asked);
  void follow(const RaiseFence& raise);
  void follow(const StopRanks& stop);
  void follow(const StartRanks& start);
  void follow(const CommitStep&) {}  // checkpoints are no snapshots of the protocol
  void follow(const DropBefore&) {}
  void follow(const Tell& tell) { say(tell.sentence); }
  void note_membership();
  void show_right();
  void kill_late_ranks();
  void end_with(Result<RanksEnd> end);
  void stop_before_begin();
  void leave();
  void say(const std::string& text) const {
    if (options_.log) options_.log(text);
  }

  // In job_following.cc: it does what the leader orders.
  void follow_leader();
  void greet_leader();
  Status take_order(const AgentChannel::Received& message);
  bool is_of_membership(uint64_t rank_epoch) const;
  void tell_news(std::vector<ProcessNews> news);
  void tell_page();
  void tell_watched();
  void tell_ready();
  void hand_over();

  // In job_splits.cc: it looks whether all hosts reach each other.
  void probe_others();
  void tell_unreached();
  bool do_not_reach_each_other(const std::string& a, const std::string& b) const;
  bool leave_out_split_hosts();
  void keep_left_out();
  void take_back_hosts();
  void show_left_out();

  // In job_leading.cc: it leads.
  bool leads() const { return running_.epoch > 0 && running_.leader == options_.name; }
  void lead();
  bool are_members_ready() const;
  bool must_wait_for_hosts(double waited_s) const;
  RemoteHost* member(const std::string& name) const;
  void begin_to_lead();
  std::string planned_change() const;
  FormerJob former_job() const;
  void share_failures();
  void show_outsiders();
  void finish(Result<RanksEnd> end);

  const MemberOptions options_;
  const TakenSignals& signals_;
  SharedJobPage& page_;
  RankProcesses processes_;
  MembershipAgent agent_;
  CoordWorker worker_;
  Reception reception_;
  std::vector<std::unique_ptr<RemoteHost>> visitors_;           // agents without a name yet
  std::map<std::string, std::unique_ptr<RemoteHost>> members_;  // connected, by name
  std::vector<std::unique_ptr<RemoteHost>> replaced_;  // until leader_ ends, which may use them
  std::map<std::string, MembershipMessage> unsent_;    // by name of the receiver
  StatusAskers askers_;
  std::unique_ptr<PartsSender> sender_;  // while this host gives its parts to another one
  PartsReceivers receivers_;
  PeerProbe probe_;
  std::map<std::string, std::set<std::string>> unreached_;  // hosts that a host does not reach
  std::set<std::string> told_unreached_;
  std::map<std::string, double> left_out_;  // since when each one has not reached all others
  std::map<std::string, std::string> why_left_out_;
  std::optional<OwnHost> own_;
  LeaderLink link_;
  std::optional<JobHosts> hosts_;  // while this agent leads
  std::optional<Leader> leader_;

  Membership running_;               // epoch 0: its ranks may not run
  Membership newest_, before_;       // memberships that were formed last
  std::map<std::string, int> seen_;  // slots of all hosts that have ever taken part, by name
  std::vector<JobFailure> failures_;
  bool is_planned_ = false;  // the ranks have saved for the next membership
  int num_signals_ = 0;      // that the user has sent
  int last_signal_ = 0;
  int64_t stopped_ns_ = 0;  // when the ranks of the last membership were told to stop; 0: running
  int64_t lead_since_ns_ = 0;
  int64_t shown_ns_ = 0;  // when other hosts were told the page
  // A change of these is told at once: whether training has begun, and how many failures
  // metrics.jsonl has.
  std::pair<bool, int64_t> shown_news_;
  int64_t answered_ns_ = 0;  // when the Coord has answered last
  bool is_coord_lost_ = false;
  bool is_writer_ = false;  // rank 0 runs here
  PageValues told_page_;
  int64_t told_ready_ = 0;
  std::optional<Result<RanksEnd>> end_;
};

}  // namespace trireme
