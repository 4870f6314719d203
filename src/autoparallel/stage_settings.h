#pragma once

#include <vector>

#include "autoparallel/unit_setting.h"

namespace trireme {

// The settings of units that the search of a stage tries.

// Returns how the ranks may hold parameters and their state. Without data parallelism there is
// nothing to shard. A stage that recomputes is short of memory, so it always shards the optimizer
// state.
std::vector<StateSharding> shardings_of(const StageMesh& mesh, Recompute recompute);

// True if another grid differs from this one in the order of its dims only. Inside a node all links
// are alike, so one of the two is enough.
bool is_mirrored(const StageMesh& mesh, int ranks_per_node);

// Returns how the residual stream may lie between two units.
std::vector<MeshPlacement> streams_of(const StageMesh& mesh);
// Returns how it lies if all ops have these roles.
MeshPlacement stream_of(const Roles& roles);

}  // namespace trireme
