#pragma once

#include <array>
#include <optional>
#include <vector>

#include "compile/run_plan.h"

namespace trireme {

// The places of the first and the last stage both hold the table of a tied head, and add the
// gradients of its two uses. Each of their ranks has one contiguous part of the flattened table,
// because tp ranks cut its rows and shards are cut from these (ZeRO). The parts of the two places
// need not be the same, so the ranks of the two places that have a run of elements in common sum
// this run in pairs.
//
// Several copies of a part (ranks of dp without ZeRO, or of other groups of shards) share the work.
// With k copies of every part at one place and l at the other one, gcd(k, l) groups pass on one
// table each. In a group each of the k / gcd(k, l) copies sums one balanced piece of the part, and
// gathers the others. With equal degrees every pair has whole parts, and nothing is gathered.

// One of the two places that hold the table.
struct TiedEnd {
  int place = 0;
  int shards = 1;   // ranks of dp that share out the rows of a tp rank
  int sharing = 1;  // neighbouring copies of a shard that share out its sum
  // The first element of each piece in the flattened table, and the table's end behind them. The
  // pieces are in the order [tp, shard, copy], with the copy fastest.
  std::vector<int64_t> borders;

  int num_pieces() const { return int(borders.size()) - 1; }
  TableRange piece(int index) const {
    return {borders[size_t(index)], borders[size_t(index) + 1] - borders[size_t(index)]};
  }
};

// Elements that two pieces have in common.
struct TiedPair {
  std::array<int, 2> pieces = {};  // of the first place and of the last one
  TableRange range;                // of the flattened table
  int round = 0;                   // no piece is in two pairs of a round
};

// The part of one rank in the sum.
struct TiedShare {
  int end = 0;    // 0: it is of the first place, 1: of the last one
  int group = 0;  // which of those that pass on one table each
  int piece = 0;
  int copy = 0;                 // among those that share out the sum of a part
  TableRange part;              // all that it owns of the table
  std::vector<int64_t> counts;  // [copy] elements of the pieces of this part
};

struct TiedJoin {
  std::array<TiedEnd, 2> ends;  // the first and the last stage
  int num_groups = 1;

  // Absent for a rank of another place.
  std::optional<TiedShare> share_of(const MeshCoords& coords) const;
  // All pairs of one group, by rising elements of the table.
  std::vector<TiedPair> pairs() const;
};

// Absent if no two places share a table that is trained.
std::optional<TiedJoin> tied_join(const RunPlan& plan);

}  // namespace trireme
