#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schema/mesh.h"
#include "schema/program.h"

namespace trireme {

// The side of the pipeline on which the peer of a join is. The bytes do not depend on which of the
// ranks on this side it is.
inline constexpr int16_t kNoPeer = -1, kOwnRank = 0, kPeerBehind = 1, kPeerBefore = 2;

// An action that sends something, and the number of actions of the program that send the same
// bytes.
struct RepeatedAction {
  // action.peer is the tp degree of the other place for a transfer, and else a side (kPeerBehind).
  Action action;
  int64_t times = 0;
  friend bool operator==(const RepeatedAction&, const RepeatedAction&) = default;
};

// Groups the sending actions of one rank. The order of the result depends only on the actions. `pp`
// is the rank's pipeline index. Units of one chunk may run F, B and W in several actions; those of
// the first unit stand for all of them.
std::vector<RepeatedAction> repeated_actions(const Mesh& mesh, std::span<const Action> actions,
                                             int pp);

}  // namespace trireme
