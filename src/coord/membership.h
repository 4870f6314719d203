#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "coord/coord.h"

namespace trireme {

// Names a snapshot: the state after `step`, in parts as the layout of `epoch` cuts it.
struct SavedStep {
  int64_t epoch = 0;
  int64_t step = 0;
  friend auto operator<=>(const SavedStep&, const SavedStep&) = default;
};

// An agent in an epoch.
struct Member {
  std::string agent;    // a name that no other agent of the job has, such as that of its host
  std::string address;  // where its ranks and its agent are reached
  LeaseId lease = 0;    // it may run this epoch only as long as it holds this lease
  int slots = 1;        // devices of the host
  int first_rank = 0;
  int num_ranks = 0;  // 0: a spare, on which no ranks run
  friend bool operator==(const Member&, const Member&) = default;
};

// The members of an epoch, their ranks and the layout. A membership never changes; every change
// begins a new epoch.
struct Membership {
  int64_t epoch = 0;  // 0: there was no epoch yet
  std::string leader;
  std::vector<Member> members;  // sorted by name
  std::string layout;
  int64_t first_step = 0;  // training resumes with this step
  friend bool operator==(const Membership&, const Membership&) = default;

  const Member* find(std::string_view agent) const;
};

// The record on which all agents agree. It is written only over the version that the writer has
// read.
struct MembershipRecord {
  double lease_s = 0.0;  // the same for all agents; an agent with another length must not join
  // The highest epoch that was ever claimed. From the claim on, no earlier epoch may run.
  int64_t claimed_epoch = 0;
  std::string claimed_by;  // agent and lease
  // The epoch that was formed last. It may run only while no later one is claimed.
  Membership formed;
  // The job is restored from this snapshot, or from a later one of the same epoch. Each holder has
  // one part of it, and any half of the parts restores the whole. Epoch 0: no snapshot exists yet.
  SavedStep base;
  std::vector<std::string> holders;
  // Agents that the leader left out of this epoch (MembershipAgent::leave_out). A later leader also
  // leaves them out until it calls leave_out() itself.
  std::vector<std::string> left_out;
  friend bool operator==(const MembershipRecord&, const MembershipRecord&) = default;
};

std::string record_text(const MembershipRecord& record);
// Parses a record. An error names the key and says what was expected there.
Result<MembershipRecord> parse_record(std::string_view text);

// The value of an agent's key in the Coord.
struct AgentCard {
  std::string address;
  int slots = 1;
  // The agent has read the claim of this epoch, and the ranks of its host have stopped for it. It
  // writes this if the leader has not asked it, because one of them may not hear the other.
  int64_t stopped_epoch = 0;
  friend bool operator==(const AgentCard&, const AgentCard&) = default;
};
std::string card_text(const AgentCard& card);
Result<AgentCard> parse_card(std::string_view text);

inline constexpr std::string_view kRecordKey = "membership";
inline constexpr std::string_view kLeaderKey = "leader";
inline constexpr std::string_view kAgentPrefix = "agents/";

// Chooses the layout for these members, gives them ranks, and returns the layout as text. The same
// members always get the same layout.
using PlaceRanks = std::function<std::string(std::vector<Member>& members)>;
// Gives every slot one rank, in the order of the members.
std::string place_on_all_slots(std::vector<Member>& members);

}  // namespace trireme
