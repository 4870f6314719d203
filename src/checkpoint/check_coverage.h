#pragma once

#include "base/result.h"
#include "checkpoint/checkpoint_index.h"

namespace trireme {

// Every tensor's slices are disjoint and together the whole tensor.
Status check_coverage(const IndexPart& contents);

}  // namespace trireme
