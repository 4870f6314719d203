#include "collectives/move_collective.h"

namespace trireme {
namespace {

using Kind = Placement::Kind;

// Returns the element count of every rank's part.
std::vector<int64_t> part_elements(const Shape& shape, Placement placement, int group_size) {
  std::vector<int64_t> elements;
  for (int r = 0; r < group_size; ++r) {
    elements.push_back(local_shape(shape, placement, group_size, r).num_elements());
  }
  return elements;
}

// Returns the elements that a rank sends to each other one to make the halo, or receives from them.
// Images that are gathered into a halo do the one, gradients that go back the other.
std::vector<int64_t> halo_elements(const Shape& global, const Placement& halo, int group_size,
                                   int rank, bool sends) {
  std::vector<int64_t> elements;
  for (int peer = 0; peer < group_size; ++peer) {
    const IndexRange rows =
        halo_rows(global[1], halo, group_size, sends ? rank : peer, sends ? peer : rank);
    elements.push_back(rows.count() * (global.num_elements() / global[1]));
  }
  return elements;
}

}  // namespace

PlanRequest MoveCollective::request(int group_size, int rank) const {
  return {.collective = collective,
          .algorithm = algorithm(),
          .rank = rank,
          .size = group_size,
          .count = count,
          .counts = counts,
          .recv_counts = recv_counts};
}

std::optional<MoveCollective> collective_of(const Redistribution& change, const Shape& global,
                                            int group_size, int rank) {
  const auto [from, to] = change;
  const bool to_whole = to.kind == Kind::Replicate || to.kind == Kind::Invariant;
  if (from.kind == Kind::Halo || to.kind == Kind::Halo) {
    const Placement& halo = to.kind == Kind::Halo ? to : from;
    if (!has_halo_rows(global[1], halo, group_size)) return std::nullopt;
    const bool makes_halo = to.kind == Kind::Halo;
    return MoveCollective{Collective::AllToAll, -1,
                          halo_elements(global, halo, group_size, rank, makes_halo),
                          halo_elements(global, halo, group_size, rank, !makes_halo)};
  }
  if (from.kind == Kind::Partial && to_whole) {
    return MoveCollective{Collective::AllReduce, global.num_elements(), {}, {}};
  }
  if (from.kind == Kind::Partial && to.kind == Kind::Shard) {
    return MoveCollective{Collective::ReduceScatter,
                          global.num_elements(),
                          part_elements(global, to, group_size),
                          {}};
  }
  if (from.kind == Kind::Shard && to_whole) {
    return MoveCollective{
        Collective::AllGather, global.num_elements(), part_elements(global, from, group_size), {}};
  }
  if (from.kind == Kind::Shard && to.kind == Kind::Shard && from.dim != to.dim) {
    const Shape mine = local_shape(global, from, group_size, rank);
    const Shape result = local_shape(global, to, group_size, rank);
    return MoveCollective{Collective::AllToAll, -1, part_elements(mine, to, group_size),
                          part_elements(result, from, group_size)};
  }
  return std::nullopt;
}

PieceTraffic piece_traffic(const Redistribution& change, const Shape& global, int pieces,
                           int group_size, int rank) {
  PieceTraffic traffic;
  const std::optional<MoveCollective> whole = collective_of(change, global, group_size, rank);
  if (!whole || group_size == 1) return traffic;
  if (whole->collective == Collective::AllReduce) {
    for (int piece = 0; piece < pieces; ++piece) {
      const int64_t rows = balanced_count(global[0], pieces, piece);
      if (rows > 0) traffic.sums.push_back({Collective::AllReduce, rows * global[1], {}, {}});
    }
    return traffic;
  }
  // A rank passes on all parts except one: when gathering the next rank's part, when summing its
  // own.
  const bool gathers = whole->collective == Collective::AllGather;
  const int next = (rank + 1) % group_size, before = (rank + group_size - 1) % group_size;
  traffic.sent_elements = whole->count - whole->counts[size_t(gathers ? next : rank)];
  traffic.received_elements = whole->count - whole->counts[size_t(gathers ? rank : before)];
  traffic.messages = group_size - 1;
  return traffic;
}

}  // namespace trireme
