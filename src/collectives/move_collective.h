#pragma once

#include <optional>
#include <vector>

#include "collectives/plan.h"
#include "schema/placement.h"

namespace trireme {

// Sums use the canonical tree over the ranks. The order of moves does not matter.
constexpr Algorithm algorithm_of_move(Collective collective) {
  return is_reduction(collective) ? Algorithm::Canonical : Algorithm::Auto;
}

// The collective that a redistribution runs on one rank, as data.
struct MoveCollective {
  Collective collective = Collective::AllReduce;
  int64_t count = 0;  // as in PlanRequest
  std::vector<int64_t> counts;
  std::vector<int64_t> recv_counts;

  Algorithm algorithm() const { return algorithm_of_move(collective); }
  PlanRequest request(int group_size, int rank) const;
};

// Returns nullopt if no rank needs anything from another.
std::optional<MoveCollective> collective_of(const Redistribution& change, const Shape& global,
                                            int group_size, int rank);

// A redistribution in pieces beside a matmul (nn/block_edge.h): the requests whose payload adds up
// to it, and what goes round the ring.
struct PieceTraffic {
  std::vector<MoveCollective> sums;
  int64_t sent_elements = 0;      // sent round the ring
  int64_t received_elements = 0;  // received round the ring
  int64_t messages = 0;           // in each direction
};
PieceTraffic piece_traffic(const Redistribution& change, const Shape& global, int pieces,
                           int group_size, int rank);

}  // namespace trireme
