#pragma once

#include <cstdint>

#include "schema/stage_shape.h"

namespace trireme {

// Rows of a matrix.
struct RowRange {
  int64_t begin = 0;
  int64_t count = 0;
};

// How a message between two places of a pipeline is cut among their tp ranks. With t tp ranks here
// and u there, gcd(t, u) groups of `here` ranks on this side and `there` on the other pass on one
// message each. Every rank of a group has one balanced part of its rows on each side, and sends or
// receives what its part has in common with those of the other side. So every row of a group
// crosses once. The ranks that have received a message then gather it, unless they share out the
// rows of the residual stream anyway (sequence parallelism). With equal degrees, a group is one
// rank on each side.
struct MessageCut {
  int here = 1;
  int there = 1;
  int index = 0;        // of this rank among those here
  int first_there = 0;  // tp index of the first rank there
  bool shares_rows = false;

  // The number of ranks that gather a message after it was received, this rank among them, and the
  // rows of a rank's tensor that one of them has.
  int num_gathering() const { return shares_rows ? 1 : here; }
  int index_in_gather() const { return index % num_gathering(); }
  RowRange gathered(int64_t rows_of_rank, int of) const;
  // The rows of a message, if each rank's tensor has so many.
  int64_t all_rows(int64_t rows_of_rank) const { return rows_of_rank * (shares_rows ? here : 1); }
  // The rows of a message that this rank receives or sends.
  RowRange own_part(int64_t all_rows) const;
  // The rows of this rank's tensor that pass between it and rank `other` there; there may be none.
  RowRange common(int64_t rows_of_rank, int other) const;
};

// Returns the cut of messages between a rank of this shape and a place with another number of tp
// ranks.
MessageCut message_cut(const StageShape& shape, int tp_there);

}  // namespace trireme
