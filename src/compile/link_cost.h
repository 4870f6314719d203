#pragma once

#include "schema/hardware.h"
#include "schema/mesh.h"

namespace trireme {

// The group of ranks that differ along one axis of the mesh. Ranks of ep lie along cp and dp; the
// group is described by its part along the outer one of those in which they differ.
RankSpan span_of(const Mesh& mesh, MeshAxis axis);

// A rank's link in a collective of a group in which ranks pass on what they receive (ring, tree,
// halving, or one after the other inside a node and between nodes). The latency is that of the
// whole collective. Bytes per second count what this rank sends: the slowest tier decides, and a
// part of the group below a tier sends through the links of all its ranks. 0: unknown.
LinkSpec group_link(const Hardware& hardware, RankSpan span);

// The same for all-to-all, where every rank sends another part to each rank. What goes to another
// node crosses the rank's own link.
LinkSpec exchange_link(const Hardware& hardware, RankSpan span);

// The link between the ranks at two positions of the mesh.
LinkSpec pair_link(const Hardware& hardware, int64_t from, int64_t to);

// Bytes of a vector per second of its all-reduce over all ranks of a span, when it is large.
double all_reduce_bytes_per_s(const Hardware& hardware, RankSpan span);

// Seconds of `messages` collectives over a link, in which this rank sends so many bytes in all.
double transfer_s(const LinkSpec& link, double sent_bytes, double messages = 1.0);

}  // namespace trireme
