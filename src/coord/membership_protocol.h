#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "coord/membership.h"

namespace trireme {

// A message between two agents. A receiver that knows a newer epoch than that of the message drops
// it.
struct MembershipMessage {
  enum class Kind {
    Prepare,    // from the leader: stop your ranks, and tell which snapshots you hold
    Prepared,   // to the leader: the ranks have stopped; it has `held` and `lease`
    Formed,     // from the leader: the record has this epoch, read it
    Alive,      // to the leader, regularly: `epoch` is the one that runs here, or 0
    Failed,     // to the leader: this epoch does not run here any more
    Saved,      // to the leader: this host has saved its part of `step`
    Committed,  // from the leader: all have saved `step`; older snapshots may be dropped
  };
  Kind kind = Kind::Alive;
  int64_t epoch = 0;
  int64_t step = 0;
  LeaseId lease = 0;
  std::vector<SavedStep> held = {};
};

// The effects of an input. The owner of a membership agent carries them out in their order.

// Send this message.
struct SendMessage {
  std::string to;
  MembershipMessage message;
};
// Make this call, and give its result to on_coord_result. A call that is not answered by its
// deadline has an error as its result.
struct CallCoord {
  int64_t id = 0;
  CoordCall call;
};
// Raise the fence (WriteFence), so that storage refuses writers of older epochs. Then call
// on_fence_raised.
struct RaiseFence {
  int64_t epoch = 0;
};
// Stop the ranks of this host, or kill them, before the next effect is carried out.
struct StopRanks {
  int64_t epoch = 0;
};
// Start ranks with this membership, and restore their state from the parts of `base` that the
// holders have.
struct StartRanks {
  Membership membership;
  SavedStep base;
  std::vector<std::string> holders;
};
// Only the leader has this effect: all ranks have saved this step, so that no failure that the job
// survives can lose it.
struct CommitStep {
  SavedStep saved;
};
// Keep this snapshot and later ones of its epoch; all others may be dropped.
struct DropBefore {
  SavedStep saved;
};
// Show this sentence to the operator.
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
  // If more than this share of the members, and several, are missing at once, a whole lease is
  // waited for them. Only tests change it.
  double many_share = 1.0 / 3.0;
  // Safety rests on these two numbers; only tests change them.
  double run_share = 2.0 / 3.0;     // share of the lease after a renewal in which ranks may run
  double holder_share = 1.0 / 2.0;  // share of the holders without which no epoch is formed
};

}  // namespace trireme
