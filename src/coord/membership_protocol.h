#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "coord/membership.h"

namespace trireme {

// A message between two agents. Each carries its epoch, and one of an older epoch than its receiver
// knows is dropped.
struct MembershipMessage {
  enum class Kind {
    Prepare,    // leader: stop your ranks for this epoch, and say what you hold
    Prepared,   // to the leader: the ranks have stopped; `held`, `lease`
    Formed,     // leader: this epoch stands in the Coord, read it
    Alive,      // to the leader, every beat; the epoch that runs here, or 0
    Failed,     // to the leader: this epoch does not run here any more
    Saved,      // to the leader: the part of this host of `step` is safe
    Committed,  // leader: `step` is safe everywhere, and older ones may be dropped
  };
  Kind kind = Kind::Alive;
  int64_t epoch = 0;
  int64_t step = 0;
  LeaseId lease = 0;
  std::vector<SavedStep> held = {};
};

// What the owner of a membership agent must do, in this order.
struct SendMessage {
  std::string to;
  MembershipMessage message;
};
// Its result goes to on_coord_result. A call that has not ended at its deadline is an error.
struct CallCoord {
  int64_t id = 0;
  CoordCall call;
};
// Everything that is written from now on must refuse writers of older epochs (WriteFence). Then
// on_fence_raised is called.
struct RaiseFence {
  int64_t epoch = 0;
};
// The ranks of this host must have stopped, or have died, when this returns.
struct StopRanks {
  int64_t epoch = 0;
};
// Ranks start with this membership; what they need is restored from `base` of the holders.
struct StartRanks {
  Membership membership;
  SavedStep base;
  std::vector<std::string> holders;
};
// At the leader: all ranks have saved this step, and no failure that is survived can lose it.
struct CommitStep {
  SavedStep saved;
};
// At every member: snapshots other than this and later ones of its epoch may be dropped.
struct DropBefore {
  SavedStep saved;
};
// A sentence for the operator.
struct Tell {
  std::string sentence;
};

using MembershipEffect = std::variant<SendMessage, CallCoord, RaiseFence, StopRanks, StartRanks,
                                      CommitStep, DropBefore, Tell>;
using MembershipEffects = std::vector<MembershipEffect>;

// Times are seconds of the agent's own monotonic clock.
struct MembershipOptions {
  std::string agent;
  AgentCard card;
  int num_expected = 1;    // agents with which the first epoch begins
  int64_t first_step = 1;  // of the first epoch
  double lease_s = 6.0;
  PlaceRanks place = place_on_all_slots;
  // The two numbers on which safety rests; only tests change them.
  double run_share = 2.0 / 3.0;     // share of the lease after a renewal in which ranks may run
  double holder_share = 1.0 / 2.0;  // share of the holders without which no epoch is formed
};

}  // namespace trireme
