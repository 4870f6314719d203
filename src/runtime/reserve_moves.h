#pragma once

#include "comm/group.h"
#include "memory/stage_tables.h"

namespace trireme {

// Before step 1: makes the tensor-parallel group ready for what the layers of a stage redistribute.
void reserve_moves(Group& tp, const ModelSpec& model, const StageSpec& stage,
                   const StageShape& shape);

}  // namespace trireme
