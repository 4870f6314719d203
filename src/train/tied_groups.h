#pragma once

#include "comm/mesh_groups.h"
#include "compile/run_plan.h"
#include "runtime/tied_sum.h"

namespace trireme {

// Makes the groups in which the ranks of the first and the last stage sum the gradients of a tied
// table (compile/tied_join.h). All ranks call it.
TiedSum make_tied_sum(const RunPlan& plan, const RankPlan& rank, const MeshGroups& groups,
                      Algorithm algorithm);

}  // namespace trireme
