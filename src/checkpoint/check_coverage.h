#pragma once

#include "base/result.h"
#include "checkpoint/checkpoint_index.h"

namespace trireme {

// Checks that the slices of every tensor are disjoint and together cover it.
Status check_coverage(const IndexPart& contents);

}  // namespace trireme
