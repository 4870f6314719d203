#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/slice.h"
#include "program/rank_plan.h"

namespace trireme {

// A part of an owned tensor as a slice of the whole parameter.
struct OwnedSlice {
  Slice slice;
  int64_t offset = 0;  // in the owned tensor
};

// The elements [first, first + count) of what a tp rank holds of a parameter. If they are whole
// rows of the parameter, they are one range of it. If the tp rank owns a box of columns, the first
// and the last row may be partial.
std::vector<OwnedSlice> slices_of(const ParamLayout& layout, int64_t first, int64_t count);

}  // namespace trireme
