#pragma once

#include <array>
#include <cstdint>

#include "autoparallel/stage_mesh.h"
#include "graph/graph.h"
#include "schema/hardware.h"

namespace trireme {

// How a value lies over one dim of a sub-mesh: a Placement, whose parts are named by what they are,
// because the roles of two ops may cut different axes.
enum class DimPlacement : uint8_t { Rows, Columns, Experts, Replicate, Partial, Invariant };
using MeshPlacement = std::array<DimPlacement, 2>;  // [dim of the mesh]

// Returns how a value lies if the rules of a role give it this placement.
DimPlacement placement_by_role(const Value& value, Placement placement, Role role);
// Returns how the gradient of the value lies.
MeshPlacement dual(const MeshPlacement& placements);

// Returns the seconds in which a value of so many bytes, all ranks' parts together, is
// redistributed: one dim after the other, in the faster order. The value is sent in `messages`
// messages.
double move_seconds(double bytes, const MeshPlacement& from, const MeshPlacement& to,
                    const StageMesh& mesh, const Hardware& hardware, double messages = 1.0);

// True if a value may be redistributed so: a whole value does not become addends, and a value whose
// gradients are addends does not become one whose gradients all ranks know.
bool can_move(const MeshPlacement& from, const MeshPlacement& to, const StageMesh& mesh);

// Return the seconds of an all-reduce, or of half of one (an all-gather or a reduce-scatter), of a
// vector over the ranks of a dim.
double all_reduce_seconds(double bytes, const MeshDim& dim, const Hardware& hardware);
double gather_seconds(double bytes, const MeshDim& dim, const Hardware& hardware);

}  // namespace trireme
