#include "predict/repeated_actions.h"

#include <map>
#include <tuple>

namespace trireme {
namespace {

int16_t side_of(int peer, int pp) {
  if (peer < 0) return kNoPeer;
  return peer == pp ? kOwnRank : peer > pp ? kPeerBehind : kPeerBefore;
}

bool sends_anything(const Action& action) {
  switch (action.kind) {
    case ActionKind::F:
    case ActionKind::B:
    case ActionKind::W:
    case ActionKind::BW:
      return action.first_unit == 0;  // counted once for all units
    case ActionKind::SendActivation:
    case ActionKind::RecvActivation:
    case ActionKind::SendGrad:
    case ActionKind::RecvGrad:
    case ActionKind::JoinDirections:
    case ActionKind::ReduceGrad:
    case ActionKind::JoinTiedTable:
    case ActionKind::Unshard:
    case ActionKind::FetchUnits:
    case ActionKind::OffloadUnits:
    case ActionKind::FetchPiece:
    case ActionKind::OffloadPiece:
    case ActionKind::Step:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::vector<RepeatedAction> repeated_actions(const Mesh& mesh, std::span<const Action> actions,
                                             int pp) {
  std::map<std::tuple<ActionKind, int, int, int, int, int>, RepeatedAction> repeated;
  for (const Action& action : actions) {
    if (!sends_anything(action)) continue;
    Action sent{.kind = action.kind, .chunk = action.chunk, .microbatch = -1};
    if (is_of_piece(action.kind)) sent.microbatch = action.microbatch;
    sent.peer =
        is_transfer(action.kind) ? int16_t(mesh.tp_at(action.peer)) : side_of(action.peer, pp);
    if (!computes(action.kind)) {
      sent.first_unit = action.first_unit;
      sent.num_units = action.num_units;
    }
    RepeatedAction& entry = repeated[{sent.kind, sent.chunk, sent.first_unit, sent.num_units,
                                      sent.peer, sent.microbatch}];
    entry.action = sent;
    ++entry.times;
  }
  std::vector<RepeatedAction> result;
  for (auto& [key, entry] : repeated) result.push_back(entry);
  return result;
}

}  // namespace trireme
