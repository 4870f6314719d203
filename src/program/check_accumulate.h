#pragma once

#include <vector>

#include "program/accumulate.h"
#include "program/check.h"

namespace trireme {

// Tracks which micro-batches each gradient slot holds. In both modes every slot read was written,
// no sum is overwritten, and at the end a chunk's slots hold every micro-batch once. In layout mode
// (no `accumulate`) only siblings of the canonical tree over map's indices are joined, left +=
// right, and no siblings are left unjoined.
std::vector<Problem> check_accumulate(const Schedule& schedule, const MicrobatchMap& map);

}  // namespace trireme
