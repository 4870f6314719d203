#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "coord/membership_leader.h"
#include "coord/membership_protocol.h"

namespace trireme {

// The membership protocol of one agent (docs/membership.md). It has no threads, sockets or clocks:
// its owner tells it what has happened and does what it returns. Agents of a job may run at clocks
// whose rates differ by up to 10 %.
class MembershipAgent {
 public:
  // `held`: snapshots that an earlier process of this agent has left on its host.
  MembershipAgent(MembershipOptions options, std::vector<SavedStep> held);

  // Does what is due. The owner calls it at next_tick_s() or earlier.
  MembershipEffects on_tick(double now_s);
  MembershipEffects on_message(double now_s, const std::string& from,
                               const MembershipMessage& message);
  MembershipEffects on_coord_result(double now_s, int64_t id, const Result<CoordReply>& result);
  MembershipEffects on_fence_raised(double now_s, int64_t epoch);
  // The ranks of this host have saved their parts of `step`.
  MembershipEffects on_saved(double now_s, int64_t step);
  // Call it if a rank of this host has died, hangs, or cannot reach another one, or if another
  // membership is needed for the reason `why`.
  MembershipEffects on_ranks_failed(double now_s, const std::string& why = "they have failed");

  // While this agent leads, it forms epochs without these agents. The membership record lists them,
  // so that later leaders leave them out, too.
  void leave_out(std::set<std::string> agents) { leader_.leave_out(std::move(agents)); }
  const std::set<std::string>& left_out() const { return leader_.left_out(); }

  double next_tick_s() const;
  int64_t running_epoch() const { return running_.epoch; }  // 0: no ranks run
  // The ranks of this host must not compute, send or write after this time, even if nobody stops
  // them. The owner shows it to them, so that it holds while the agent itself stands still.
  double may_run_until_s() const;
  // False while the former snapshot is not committed: then there is no buffer for another one.
  bool may_save() const { return running_.epoch > 0 && saved_step_ == committed_step_; }
  const std::vector<SavedStep>& held() const { return held_; }
  bool is_leading() const { return is_leader_; }
  const MembershipView& view() const { return view_; }  // what the newest list has shown

 private:
  enum class Asked { Grant, KeepAlive, List, Register, Elect, Resign, Revoke, Write };
  struct Pending {
    Asked asked = Asked::List;
    double sent_s = 0.0;
    LeaseId lease = 0;
  };

  int64_t ask(Asked asked, CoordCall call);
  void send(const std::string& to, MembershipMessage message);
  void tell(std::string sentence) { effects_.push_back(Tell{std::move(sentence)}); }
  MembershipEffects take();

  void renew();
  void look();  // lists the keys of the job
  void lose_lease();
  void step_back();
  void read_view(double sent_s, const std::vector<CoordEntry>& entries);
  void read_record(const CoordEntry& entry);
  void read_agent(const CoordEntry& entry, std::map<std::string, MembershipView::Agent>& agents);
  void take_part();
  void take_part_in(const Membership& formed);
  void register_card();
  void stand_for_election();
  void stop_ranks(const std::string& why);
  void start_ranks();
  void on_prepare(const std::string& from, const MembershipMessage& message);
  void on_committed(const MembershipMessage& message);
  void on_leader_news(const std::string& from, const MembershipMessage& message);
  void lead();
  bool follow(LeaderOrders orders);  // true: a message went to this agent itself
  bool is_pending(Asked asked) const;

  const MembershipOptions options_;
  const double beat_s_;
  std::vector<SavedStep> held_;
  double now_s_ = 0.0;
  MembershipEffects effects_;

  int64_t next_id_ = 1;
  std::map<int64_t, Pending> pending_;
  double next_beat_s_ = 0.0;

  LeaseId lease_ = 0;
  double lease_renewed_s_ = 0.0;  // when the last renewal that succeeded was sent
  // When the list that view_ shows was sent.
  double seen_s_ = -1.0;
  MembershipView view_;
  double no_election_before_s_ = 0.0;
  double no_lease_before_s_ = 0.0;
  int64_t stopped_epoch_ = 0;  // AgentCard::stopped_epoch

  int64_t known_epoch_ = 0;     // the newest epoch of which this agent knows
  int64_t ended_epoch_ = 0;     // the newest epoch that has run here and was stopped
  int64_t prepared_epoch_ = 0;  // its ranks have stopped for this epoch, and may start in it
  Membership running_;          // epoch 0: no ranks run
  // When the newest list was sent that showed that running_ may run.
  double record_seen_s_ = 0.0;
  int64_t saved_step_ = 0;
  int64_t committed_step_ = 0;
  bool is_lease_length_wrong_ = false;

  bool is_leader_ = false;
  MembershipLeader leader_;
};

}  // namespace trireme
