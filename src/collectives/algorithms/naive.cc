#include <numeric>

#include "collectives/algorithms/algorithms.h"

// Each rank sends to all others: in round k rank r sends to r + k and receives from r - k. Every
// rank adds all vectors in the canonical order, so all ranks have the same bits.

namespace trireme::algorithms {
namespace {

int wrap(int i, int n) { return ((i % n) + n) % n; }

Step reduce_ranks(Piece target, Piece own) {
  Step step;
  step.kind = Step::Kind::ReduceRanks;
  step.recv = target;
  step.operand = own;
  return step;
}

}  // namespace

// N-1 rounds; sends and receives (N-1)M.
int naive_all_reduce(CommPlan& plan, const PlanRequest& request) {
  const int n = request.size;
  const int64_t count = request.count;
  const Piece whole{Memory::Out, 0, count};
  if (n > 1) plan.tmp_count = n * count;
  for (int k = 1; k < n; ++k) {
    const int from = wrap(request.rank - k, n);
    plan.steps.push_back(exchange(k - 1, wrap(request.rank + k, n), whole, from,
                                  {Memory::Tmp, from * count, count}));
  }
  if (n > 1) plan.steps.push_back(reduce_ranks(whole, whole));
  plan.result_is_mean = n > 1;
  return n - 1;
}

// N-1 rounds; sends (N-1)c_r, receives M - c_r.
int naive_all_gather(CommPlan& plan, const PlanRequest& request, std::span<const int64_t> counts) {
  const int n = request.size;
  const std::vector<Piece> out = pieces_of(Memory::Out, counts);
  const Piece own{Memory::In, 0, counts[request.rank]};
  plan.steps.push_back(copy(out[request.rank], own));
  for (int k = 1; k < n; ++k) {
    const int from = wrap(request.rank - k, n);
    plan.steps.push_back(exchange(k - 1, wrap(request.rank + k, n), own, from, out[from]));
  }
  return n - 1;
}

// N-1 rounds; sends M - c_r, receives (N-1)c_r. All N original pieces are added at once, which is
// the most exact order in bf16.
int naive_reduce_scatter(CommPlan& plan, const PlanRequest& request,
                         std::span<const int64_t> counts) {
  const int n = request.size;
  const std::vector<Piece> in = pieces_of(Memory::In, counts);
  const int64_t own = counts[request.rank];
  const Piece result{Memory::Out, 0, own};
  if (n == 1) {
    plan.steps.push_back(copy(result, in[0]));
    return 0;
  }
  plan.tmp_count = n * own;
  for (int k = 1; k < n; ++k) {
    const int to = wrap(request.rank + k, n);
    const int from = wrap(request.rank - k, n);
    plan.steps.push_back(exchange(k - 1, to, in[to], from, {Memory::Tmp, from * own, own}));
  }
  plan.steps.push_back(reduce_ranks(result, in[request.rank]));
  plan.result_is_mean = true;
  return n - 1;
}

// N-1 rounds; sends M - c_r.
int pairwise_all_to_all(CommPlan& plan, const PlanRequest& request,
                        std::span<const int64_t> send_counts,
                        std::span<const int64_t> recv_counts) {
  const int n = request.size, me = request.rank;
  const auto own = [&](Memory memory, std::span<const int64_t> counts) {
    return Piece{memory, std::accumulate(counts.begin(), counts.begin() + me, int64_t{0}),
                 counts[me]};
  };
  Piece in = own(Memory::In, send_counts), out = own(Memory::Out, recv_counts);
  const int64_t end = std::accumulate(recv_counts.begin(), recv_counts.end(), int64_t{0});
  plan.steps.push_back(copy(out, in));
  for (int k = 1; k < n; ++k) {
    const int to = wrap(me + k, n);
    const int from = wrap(me - k, n);
    in = {Memory::In, to == 0 ? 0 : in.begin + in.count, send_counts[to]};
    out = {Memory::Out, (from == n - 1 ? end : out.begin) - recv_counts[from], recv_counts[from]};
    plan.steps.push_back(exchange(k - 1, to, in, from, out));
  }
  return n - 1;
}

// Rank 0 is the server and also a worker: 2(N-1) rounds of one message. Rank 0 sends and receives
// (N-1)M, each other rank M. The server adds in the canonical order once all vectors have arrived.
int parameter_server_all_reduce(CommPlan& plan, const PlanRequest& request) {
  const int n = request.size;
  const int64_t count = request.count;
  const Piece whole{Memory::Out, 0, count};
  if (n == 1) return 0;
  plan.result_is_mean = true;  // the server divides before it answers
  if (request.rank != 0) {
    plan.steps.push_back(send_only(request.rank - 1, 0, whole));
    plan.steps.push_back(recv_only(n - 1 + request.rank - 1, 0, whole));
    return 2 * (n - 1);
  }
  plan.tmp_count = n * count;
  for (int r = 1; r < n; ++r) {
    plan.steps.push_back(recv_only(r - 1, r, {Memory::Tmp, r * count, count}));
  }
  plan.steps.push_back(reduce_ranks(whole, whole));
  for (int r = 1; r < n; ++r) plan.steps.push_back(send_only(n - 1 + r - 1, r, whole));
  return 2 * (n - 1);
}

// N-1 rounds; every other rank sends M, the root receives (N-1)M.
int linear_reduce(CommPlan& plan, const PlanRequest& request) {
  const int n = request.size;
  const int64_t count = request.count;
  const Piece in{Memory::In, 0, count};
  const Piece out{Memory::Out, 0, count};
  const int turn = wrap(request.rank - request.root, n) - 1;
  if (request.rank != request.root) {
    plan.steps.push_back(send_only(turn, request.root, in));
    return n - 1;
  }
  if (n == 1) {
    plan.steps.push_back(copy(out, in));
    return 0;
  }
  plan.tmp_count = n * count;
  for (int k = 1; k < n; ++k) {
    const int from = wrap(request.root + k, n);
    plan.steps.push_back(recv_only(k - 1, from, {Memory::Tmp, from * count, count}));
  }
  plan.steps.push_back(reduce_ranks(out, in));
  plan.result_is_mean = true;
  return n - 1;
}

// N-1 rounds; the root sends (N-1)M.
int linear_broadcast(CommPlan& plan, const PlanRequest& request) {
  const int n = request.size;
  const Piece whole{Memory::Out, 0, request.count};
  if (request.rank != request.root) {
    plan.steps.push_back(recv_only(wrap(request.rank - request.root, n) - 1, request.root, whole));
    return n - 1;
  }
  for (int k = 1; k < n; ++k) {
    plan.steps.push_back(send_only(k - 1, wrap(request.root + k, n), whole));
  }
  return n - 1;
}

// N-1 rounds; the root sends M - c_root.
int linear_scatter(CommPlan& plan, const PlanRequest& request, std::span<const int64_t> counts) {
  const int n = request.size;
  const std::vector<Piece> in = pieces_of(Memory::In, counts);
  const Piece own{Memory::Out, 0, counts[request.rank]};
  if (request.rank != request.root) {
    plan.steps.push_back(recv_only(wrap(request.rank - request.root, n) - 1, request.root, own));
    return n - 1;
  }
  plan.steps.push_back(copy(own, in[request.rank]));
  for (int k = 1; k < n; ++k) {
    const int to = wrap(request.root + k, n);
    plan.steps.push_back(send_only(k - 1, to, in[to]));
  }
  return n - 1;
}

// N-1 rounds; the root receives M - c_root. `own` is the rank's part.
int linear_gather(CommPlan& plan, int round, const PlanRequest& request,
                  std::span<const int64_t> counts, Piece own) {
  const int n = request.size;
  const std::vector<Piece> out = pieces_of(Memory::Out, counts);
  if (request.rank != request.root) {
    plan.steps.push_back(
        send_only(round + wrap(request.rank - request.root, n) - 1, request.root, own));
    return n - 1;
  }
  if (own.memory != Memory::Out) plan.steps.push_back(copy(out[request.rank], own));
  for (int k = 1; k < n; ++k) {
    const int from = wrap(request.root + k, n);
    plan.steps.push_back(recv_only(round + k - 1, from, out[from]));
  }
  return n - 1;
}

}  // namespace trireme::algorithms
