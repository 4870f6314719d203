#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "coord/coord.h"

namespace trireme {

// A snapshot of the state after a step. Its parts lie as the layout of its epoch cuts them.
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
  int num_ranks = 0;  // 0: a spare
  friend bool operator==(const Member&, const Member&) = default;
};

// Who trains in an epoch, and how. It never changes; a change is a new epoch.
struct Membership {
  int64_t epoch = 0;  // 0: there was no epoch yet
  std::string leader;
  std::vector<Member> members;  // sorted by name
  std::string layout;
  int64_t first_step = 0;  // training resumes with this step
  friend bool operator==(const Membership&, const Membership&) = default;

  const Member* find(std::string_view agent) const;
};

// The one record on which all agents agree. Every change of it compares its version.
struct MembershipRecord {
  double lease_s = 0.0;  // the same for all agents; one with another length must not join
  // The highest epoch that was ever claimed. From the claim on, no earlier epoch may run.
  int64_t claimed_epoch = 0;
  std::string claimed_by;  // agent and lease
  // The epoch that was formed last. It may run only while no later one is claimed.
  Membership formed;
  // The snapshot from which the job is restored: this step or a later one that the agents have
  // saved in this epoch, in parts of which any half restores the whole. Epoch 0: the start.
  SavedStep base;
  std::vector<std::string> holders;
  friend bool operator==(const MembershipRecord&, const MembershipRecord&) = default;
};

std::string record_text(const MembershipRecord& record);
// Refuses a text that is no record, with the key and what was expected there.
Result<MembershipRecord> parse_record(std::string_view text);

// What an agent says about itself under its key in the Coord.
struct AgentCard {
  std::string address;
  int slots = 1;
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
// One rank for each slot, in the order of names.
std::string place_on_all_slots(std::vector<Member>& members);

}  // namespace trireme
