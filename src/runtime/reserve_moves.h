#pragma once

#include "comm/group.h"
#include "memory/stage_tables.h"

namespace trireme {

// Before step 1: makes the groups over tp and over a batch ready for what the layers of a stage
// redistribute.
void reserve_moves(Group& tp, Group& batch, const ModelSpec& model, const StageSpec& stage,
                   const StageShape& shape);

}  // namespace trireme
