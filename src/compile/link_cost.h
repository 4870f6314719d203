#pragma once

#include "schema/hardware.h"
#include "schema/mesh.h"

namespace trireme {

// The group of ranks that differ along one axis of the mesh. Ranks of ep lie along cp and dp; the
// group is described by its part along the outer one of those in which they differ. The places of a
// pipeline have groups alike unless they differ.
RankSpan span_of(const Mesh& mesh, MeshAxis axis, int place = 0);

// The sizes of the nodes on which the ranks of a place lie.
NodeSizes nodes_of_place(const Hardware& hardware, const Mesh& mesh, int place);
// span_of with these sizes, for prices.
RankSpan span_on(const Hardware& hardware, const Mesh& mesh, MeshAxis axis, int place);

// A rank's link in a collective of a group in which ranks pass on what they receive (ring, tree,
// halving, or one after the other inside a node and between nodes). The latency is that of the
// whole collective. Bytes per second count what this rank sends: the slowest tier decides, and a
// part of the group below a tier sends through the links of all its ranks. 0: unknown.
LinkSpec group_link(const Hardware& hardware, RankSpan span);

// The same for all-to-all, in which a rank sends a different part to each other rank. Bytes to
// another node cross the rank's own link.
LinkSpec exchange_link(const Hardware& hardware, RankSpan span);

// The link between the ranks at two positions of the mesh. If their nodes have different sizes, the
// rank with less bandwidth to other nodes decides.
LinkSpec pair_link(const Hardware& hardware, int64_t from, int64_t to);

// Seconds in which a rank moves the bytes of a collective through memory, for vectors that no cache
// holds. Returns 0 unless all ranks of the group share the memory of one processor. The ranks of a
// node read and write each other's vectors in place. The bytes are counted, not fitted. To sum, a
// rank reads its part of all addends and writes the sum for all. To gather, it reads and writes the
// whole vector. A core also reads the memory that it writes, unless it has just read it.
enum class VectorMove : uint8_t { AllReduce, ReduceScatter, AllGather };
inline constexpr int kNumVectorMoves = 3;
double shared_memory_s(const Hardware& hardware, RankSpan span, VectorMove move, double sent_bytes);

// Seconds of `messages` collectives over a link, in which this rank sends so many bytes in all.
double transfer_s(const LinkSpec& link, double sent_bytes, double messages = 1.0);

}  // namespace trireme
