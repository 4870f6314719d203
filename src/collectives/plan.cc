#include "collectives/plan.h"

#include <fmt/format.h>

#include <bit>

#include "collectives/algorithms/algorithms.h"

namespace trireme {
namespace {

using namespace algorithms;

bool is_power_of_two(int n) { return std::has_single_bit(static_cast<unsigned>(n)); }

int plan_all_reduce(CommPlan& plan, const PlanRequest& q) {
  const Members m = all_ranks(q.size, q.rank);
  const Piece whole{Memory::Out, 0, q.count};
  plan.result = whole;
  switch (q.algorithm) {
    case Algorithm::ParameterServer:
      return parameter_server_all_reduce(plan, q);
    case Algorithm::Naive:
      return naive_all_reduce(plan, q);
    case Algorithm::Ring: {
      const std::vector<Piece> chunks = balanced_pieces(whole, q.size);
      const int rounds = ring_reduce_scatter_in_place(plan, 0, m, chunks);
      return rounds + ring_all_gather_in_place(plan, rounds, m, chunks, 1);
    }
    case Algorithm::Tree: {
      const int rounds = tree_reduce_in_place(plan, 0, m, whole);
      return rounds + tree_broadcast(plan, rounds, m, whole);
    }
    case Algorithm::Doubling:
      return doubling_all_reduce(plan, 0, m, whole);
    case Algorithm::HalvingDoubling:
      return halving_doubling_all_reduce(plan, 0, m, whole);
    case Algorithm::Hierarchical:
      return hierarchical_all_reduce(plan, q);
    default:
      return -1;
  }
}

int plan_reduce(CommPlan& plan, const PlanRequest& q, std::span<const int64_t> counts) {
  if (q.rank == q.root) plan.result = {Memory::Out, 0, q.count};
  if (q.algorithm == Algorithm::Tree) {
    return tree_reduce(plan, 0, ranks_from(q.root, q.size, q.rank), q.count);
  }
  if (q.algorithm == Algorithm::Ring) {
    // N-1 rounds of reduce-scatter, then N-1 rounds to the root. The root sends M - c_root; every
    // other rank sends M.
    const std::vector<Piece> out = pieces_of(Memory::Out, counts);
    const int64_t own = counts[q.rank];
    plan.tmp_count = own;
    const Piece part = q.rank == q.root ? out[q.rank] : Piece{Memory::Tmp, 0, own};
    const int rounds = ring_reduce_scatter(plan, 0, all_ranks(q.size, q.rank),
                                           pieces_of(Memory::In, counts), part, own);
    return rounds + linear_gather(plan, rounds, q, counts, part);
  }
  return linear_reduce(plan, q);
}

int plan_all_gather(CommPlan& plan, const PlanRequest& q, std::span<const int64_t> counts) {
  if (q.algorithm == Algorithm::Naive) return naive_all_gather(plan, q, counts);
  if (q.algorithm == Algorithm::Doubling) return bruck_all_gather(plan, q, counts);
  const std::vector<Piece> out = pieces_of(Memory::Out, counts);
  plan.steps.push_back(copy(out[q.rank], {Memory::In, 0, counts[q.rank]}));
  return ring_all_gather_in_place(plan, 0, all_ranks(q.size, q.rank), out, 0);
}

int plan_reduce_scatter(CommPlan& plan, const PlanRequest& q, std::span<const int64_t> counts) {
  plan.result = {Memory::Out, 0, counts[q.rank]};
  if (q.algorithm == Algorithm::Naive) return naive_reduce_scatter(plan, q, counts);
  if (q.algorithm == Algorithm::HalvingDoubling) return halving_reduce_scatter(plan, q, counts);
  return ring_reduce_scatter(plan, 0, all_ranks(q.size, q.rank), pieces_of(Memory::In, counts),
                             plan.result, 0);
}

int plan_all_to_all(CommPlan& plan, const PlanRequest& q, std::span<const int64_t> send_counts) {
  if (q.algorithm == Algorithm::Doubling) return bruck_all_to_all(plan, q);
  if (q.algorithm == Algorithm::Ring) return ring_all_to_all(plan, q);
  const std::vector<int64_t> own(q.size, send_counts[q.rank]);
  return pairwise_all_to_all(plan, q, send_counts, q.recv_counts.empty() ? own : q.recv_counts);
}

int append_steps(CommPlan& plan, const PlanRequest& q, std::span<const int64_t> counts) {
  const bool tree = q.algorithm == Algorithm::Tree;
  switch (q.collective) {
    case Collective::AllReduce:
      return plan_all_reduce(plan, q);
    case Collective::Reduce:
      return plan_reduce(plan, q, counts);
    case Collective::Broadcast:
      if (q.algorithm == Algorithm::Ring) return chain_broadcast(plan, q);
      if (!tree) return linear_broadcast(plan, q);
      return tree_broadcast(plan, 0, ranks_from(q.root, q.size, q.rank), {Memory::Out, 0, q.count});
    case Collective::Scatter:
      return tree ? tree_scatter(plan, q, counts) : linear_scatter(plan, q, counts);
    case Collective::Gather:
      return tree ? tree_gather(plan, q, counts)
                  : linear_gather(plan, 0, q, counts, {Memory::In, 0, counts[q.rank]});
    case Collective::AllGather:
      return plan_all_gather(plan, q, counts);
    case Collective::ReduceScatter:
      return plan_reduce_scatter(plan, q, counts);
    case Collective::AllToAll:
      return plan_all_to_all(plan, q, counts);
    case Collective::Barrier:
      return dissemination_barrier(plan, q);
    case Collective::Send:
    case Collective::Recv:
      break;
  }
  TRIREME_CHECK(false, "send and recv have no plan");
  return 0;
}

}  // namespace

std::vector<Algorithm> algorithms_of(Collective collective, int size) {
  using enum Algorithm;
  switch (collective) {
    case Collective::AllReduce:
      return {ParameterServer, Naive, Ring, Tree, Doubling, HalvingDoubling, Hierarchical};
    case Collective::Reduce:
    case Collective::Broadcast:
      return {ParameterServer, Naive, Ring, Tree};
    case Collective::Scatter:
    case Collective::Gather:
      return {ParameterServer, Naive, Tree};
    case Collective::AllGather:
      return {Naive, Ring, Doubling};
    case Collective::AllToAll:
      return {Naive, Ring, Doubling};
    case Collective::ReduceScatter:
      if (is_power_of_two(size)) return {Naive, Ring, HalvingDoubling};
      return {Naive, Ring};
    case Collective::Barrier:
      return {Doubling};
    case Collective::Send:
    case Collective::Recv:
      return {};
  }
  return {};
}

Result<CommPlan> plan_collective(const PlanRequest& q) {
  const std::vector<Algorithm> known = algorithms_of(q.collective, q.size);
  std::string names;
  bool applies = false;
  for (Algorithm algorithm : known) {
    applies = applies || algorithm == q.algorithm;
    names += fmt::format(" {}", name_of(algorithm));
  }
  if (!applies) {
    return Error{ErrorKind::Usage,
                 fmt::format("{} has no algorithm {} for {} ranks; it has:{}",
                             name_of(q.collective), name_of(q.algorithm), q.size, names)};
  }
  if (q.collective == Collective::AllToAll && !q.counts.empty() &&
      q.algorithm != Algorithm::Naive) {
    return Error{ErrorKind::Usage,
                 fmt::format("all_to_all with unequal counts has no algorithm {}; "
                             "use naive",
                             name_of(q.algorithm))};
  }
  std::vector<int64_t> counts(q.counts.begin(), q.counts.end());
  const bool has_parts = q.collective != Collective::AllReduce;
  for (int i = int(counts.size()); has_parts && i < q.size; ++i) {
    counts.push_back(balanced_count(q.count, q.size, i));
  }
  CommPlan plan;
  plan.rounds = append_steps(plan, q, counts);
  return plan;
}

PlanTraffic traffic_of(const CommPlan& plan) {
  PlanTraffic traffic;
  for (const Step& step : plan.steps) {
    if (step.kind != Step::Kind::Exchange) continue;
    if (step.send_to >= 0 && (step.send.count > 0 || plan.sends_empty)) {
      traffic.sent += step.send.count;
      ++traffic.sent_messages;
    }
    if (step.recv_from >= 0 && (step.recv.count > 0 || plan.sends_empty)) {
      traffic.received += step.recv.count;
      ++traffic.received_messages;
    }
  }
  return traffic;
}

int64_t sent_elements(const PlanRequest& q) {
  if (q.algorithm == Algorithm::Ring && q.collective == Collective::AllReduce && q.size > 1) {
    const auto part = [&](int place) { return balanced_count(q.count, q.size, place % q.size); };
    return 2 * q.count - part(q.rank + 1) - part(q.rank + 2);
  }
  const Result<CommPlan> plan = plan_collective(q);
  return plan.ok() ? traffic_of(*plan).sent : 0;
}

}  // namespace trireme
