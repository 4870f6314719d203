#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coord/membership_protocol.h"

namespace trireme {

// The keys of a job at one moment, parsed.
struct MembershipView {
  struct Agent {
    LeaseId lease = 0;
    int64_t version = 0;
    AgentCard card;
  };
  int64_t record_version = 0;
  MembershipRecord record;
  int64_t leader_version = 0;
  std::string leader;
  LeaseId leader_lease = 0;
  std::map<std::string, Agent> agents;  // by name
};

// The orders of the leader to its agent.
struct LeaderOrders {
  std::vector<std::pair<std::string, MembershipMessage>> messages;  // also to itself
  std::optional<MembershipRecord> record;  // to be written over record_version of the view
  int64_t raise_fence = 0;                 // 0: no
  std::optional<SavedStep> commit;
  bool resign = false;     // another agent should lead
  bool step_back = false;  // this one does not reach the others; it must not lead for a while
  std::string sentence;
};

// The part of the protocol that makes epochs. An agent uses it while it leads.
class MembershipLeader {
 public:
  explicit MembershipLeader(const MembershipOptions& options) : options_(options) {}

  // Begins to lead. The first order is to claim a new epoch.
  // `left_out`: the agents that the former leader left out. They stay left out until leave_out().
  void begin(LeaseId lease, const std::vector<std::string>& left_out);
  // `seen_s`: when the list that shows `view` was sent.
  LeaderOrders act(double now_s, double seen_s, const MembershipView& view);
  void on_message(double now_s, const std::string& from, const MembershipMessage& message);
  void on_fence_raised(int64_t epoch);
  // Epochs are formed without these agents, which must have stopped their ranks, too.
  void leave_out(std::set<std::string> agents) { left_out_ = std::move(agents); }
  const std::set<std::string>& left_out() const { return left_out_; }
  int64_t epoch() const { return epoch_; }

 private:
  struct Answer {
    LeaseId lease = 0;
    std::vector<SavedStep> held;
  };

  std::string session() const;
  void claim(const MembershipView& view);
  void claim_because(std::string why);
  void enter_gathering(int64_t epoch);
  void gather(const MembershipView& view);
  bool has_answered(const std::string& name, const MembershipView& view) const;
  bool all_have_answered(const MembershipView& view) const;
  bool has_stopped(const Member& member, const MembershipView& view) const;
  bool have_former_stopped(const MembershipView& view) const;
  std::optional<int64_t> choose_step(const MembershipView& view) const;
  void form(const MembershipView& view, int64_t step);
  void watch(const MembershipView& view);
  std::string trouble(const MembershipView& view) const;
  bool is_silent(const Member& member) const;
  bool is_alone(const MembershipView& view) const;
  bool is_in_smaller_part(const MembershipView& view) const;
  bool can_grow(const MembershipView& view) const;
  void commit(const MembershipView& view);

  const MembershipOptions& options_;
  double now_s_ = 0.0;
  double seen_s_ = 0.0;
  LeaderOrders orders_;
  LeaseId lease_ = 0;
  std::set<std::string> left_out_;
  std::map<std::string, double> heard_s_;      // by agent
  std::map<std::string, int64_t> runs_epoch_;  // by agent, as it said last

  bool must_claim_ = false;
  int64_t wanted_epoch_ = 0;  // the epoch of the claim that was ordered last
  std::string why_claim_;
  int64_t epoch_ = 0;  // the epoch that this leader has claimed, 0: none
  double claimed_s_ = 0.0;
  std::map<std::string, Answer> answers_;
  double asked_s_ = 0.0;
  int64_t fenced_epoch_ = 0;
  double fence_asked_s_ = 0.0;

  bool is_formed_ = false;
  double formed_s_ = 0.0;
  std::map<std::string, int64_t> saved_;  // newest step by member
  std::set<std::string> repeat_to_;       // members that have missed a commit
  int64_t committed_step_ = 0;
};

}  // namespace trireme
