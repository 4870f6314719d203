#pragma once

#include <array>
#include <cstdint>

#include "autoparallel/stage_mesh.h"
#include "graph/graph.h"
#include "schema/hardware.h"

namespace trireme {

// How a value lies over one dim of a sub-mesh: a Placement, whose parts are named by what they are,
// because the roles of two ops may cut different axes.
enum class Lie : uint8_t { Rows, Columns, Experts, Replicate, Partial, Invariant };
using Lies = std::array<Lie, 2>;  // [dim of the mesh]

// The lie of a value that the rules of a role place so.
Lie lie_of(const Value& value, Placement placement, Role role);
// That of the value's gradient.
Lies dual(const Lies& lies);

// Seconds in which a value of so many bytes, all ranks' parts together, goes from one lie to
// another: one dim after the other, in the better order. `messages`: into which it is cut.
double move_seconds(double bytes, const Lies& from, const Lies& to, const StageMesh& mesh,
                    const Hardware& hardware, double messages = 1.0);

// Whether a value may go from one lie to another: what is whole does not become addends, and a
// value whose gradients are addends does not become one whose gradients all ranks know.
bool can_move(const Lies& from, const Lies& to, const StageMesh& mesh);

// Seconds of an all-reduce, or of half of one (a gather or a reduce-scatter), of a vector over the
// ranks of a dim.
double all_reduce_seconds(double bytes, const MeshDim& dim, const Hardware& hardware);
double gather_seconds(double bytes, const MeshDim& dim, const Hardware& hardware);

}  // namespace trireme
