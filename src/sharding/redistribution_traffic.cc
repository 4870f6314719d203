#include "sharding/redistribution_traffic.h"

#include "base/check.h"

namespace trireme {
namespace {

using Kind = Placement::Kind;

// Elements of every rank's part.
std::vector<int64_t> part_elements(const Shape& shape, Placement placement, int group_size) {
  std::vector<int64_t> elements;
  for (int r = 0; r < group_size; ++r) {
    elements.push_back(local_shape(shape, placement, group_size, r).num_elements());
  }
  return elements;
}

}  // namespace

PlanRequest MoveCollective::request(Algorithm algorithm, int group_size, int rank) const {
  return {.collective = collective,
          .algorithm = algorithm,
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

Traffic redistribution_traffic(const Redistribution& change, const Shape& global, DType dtype,
                               Algorithm algorithm, int group_size, int rank) {
  const std::optional<MoveCollective> move = collective_of(change, global, group_size, rank);
  if (!move || group_size == 1) return {};
  const PlanRequest request = move->request(algorithm, group_size, rank);
  const int64_t element = size_of(dtype);
  if (algorithm == Algorithm::Shared) {
    const PlanTraffic moved = shared_traffic(request, element);
    return {moved.sent * element, moved.received * element, 0, 0};
  }
  const Result<CommPlan> plan = plan_collective(request);
  TRIREME_CHECK(plan.ok(), plan.error().message);
  const PlanTraffic moved = traffic_of(*plan);
  return {moved.sent * element, moved.received * element, moved.sent_messages,
          moved.received_messages};
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
  // Each passes on all parts but one: gathering, that of the next rank; summing, its own.
  const bool gathers = whole->collective == Collective::AllGather;
  const int next = (rank + 1) % group_size, before = (rank + group_size - 1) % group_size;
  traffic.sent_elements = whole->count - whole->counts[size_t(gathers ? next : rank)];
  traffic.received_elements = whole->count - whole->counts[size_t(gathers ? rank : before)];
  traffic.messages = group_size - 1;
  return traffic;
}

int64_t redistribution_tmp_bytes(const Redistribution& change, const Shape& global, DType dtype,
                                 Algorithm algorithm, int group_size, int rank) {
  const std::optional<MoveCollective> move = collective_of(change, global, group_size, rank);
  if (!move || algorithm == Algorithm::Shared) return 0;
  const Result<CommPlan> plan = plan_collective(move->request(algorithm, group_size, rank));
  TRIREME_CHECK(plan.ok(), plan.error().message);
  return plan->tmp_count * size_of(dtype);
}

Traffic redistribution_traffic(Group& group, const Redistribution& change, const Shape& global,
                               DType dtype) {
  const std::optional<MoveCollective> move =
      collective_of(change, global, group.size(), group.rank());
  if (!move) return {};
  const auto flat = [&](Placement placement) {
    const Shape part = local_shape(global, placement, group.size(), group.rank());
    return TensorRef{nullptr, dtype, Shape{part.num_elements()}};
  };
  return group.predict({.collective = move->collective,
                        .in = flat(change.from),
                        .out = flat(change.to),
                        .counts = move->counts,
                        .recv_counts = move->recv_counts});
}

}  // namespace trireme
