#include <algorithm>

#include "collectives/algorithms/algorithms.h"

namespace trireme::algorithms {

// N-1 rounds; member i sends M - c_{i+1} and receives M - c_i. All data flow to the next member,
// and each round sends and receives at once, so members cannot wait for each other in a cycle.
int ring_reduce_scatter_in_place(CommPlan& plan, int round, const Members& m,
                                 std::span<const Piece> chunks) {
  const int n = m.size();
  for (int s = 0; s < n - 1; ++s) {
    const Piece sent = chunks[m.index(m.me - s)];
    const Piece received = chunks[m.index(m.me - 1 - s)];
    plan.steps.push_back(reducing(
        exchange(round + s, m.at(m.me + 1), sent, m.at(m.me - 1), received), received, false));
  }
  return n - 1;
}

// N-1 rounds; member i begins with chunk i + owned_offset.
int ring_all_gather_in_place(CommPlan& plan, int round, const Members& m,
                             std::span<const Piece> chunks, int owned_offset) {
  const int n = m.size();
  for (int s = 0; s < n - 1; ++s) {
    plan.steps.push_back(exchange(round + s, m.at(m.me + 1),
                                  chunks[m.index(m.me + owned_offset - s)], m.at(m.me - 1),
                                  chunks[m.index(m.me + owned_offset - 1 - s)]));
  }
  return n - 1;
}

// N-1 rounds; member i sends M - c_i and receives M - c_{i-1}. It first sends chunk i-1 and ends
// with chunk i. The partial sums alternate between two scratch chunks.
int ring_reduce_scatter(CommPlan& plan, int round, const Members& m,
                        std::span<const Piece> in_chunks, Piece result, int64_t tmp_begin) {
  const int n = m.size();
  if (n == 1) {
    plan.steps.push_back(copy(result, in_chunks[0]));
    return 0;
  }
  int64_t largest = 0;
  for (const Piece& chunk : in_chunks) largest = std::max(largest, chunk.count);
  plan.tmp_count = std::max(plan.tmp_count, tmp_begin + 2 * largest);
  Piece partial = in_chunks[m.index(m.me - 1)];
  for (int s = 0; s < n - 1; ++s) {
    const Piece addend = in_chunks[m.index(m.me - 2 - s)];
    const Piece next =
        s == n - 2 ? result : Piece{Memory::Tmp, tmp_begin + (s % 2) * largest, addend.count};
    plan.steps.push_back(reducing(
        exchange(round + s, m.at(m.me + 1), partial, m.at(m.me - 1), next), addend, false));
    partial = next;
  }
  return n - 1;
}

// Store and forward, for comparison: it sends (M/N) N(N-1)/2 per rank instead of M(N-1)/N. In round
// s every rank forwards the blocks that have not arrived: those from rank r - s with distance > s.
int ring_all_to_all(CommPlan& plan, const PlanRequest& request) {
  const int n = request.size;
  const int r = request.rank;
  const int64_t total = request.count;
  const auto wrap = [n](int i) { return ((i % n) + n) % n; };
  const auto block = [&](int dest) { return balanced_count(total, n, wrap(dest)); };
  const int64_t own = block(r);
  plan.steps.push_back(
      copy({Memory::Out, r * own, own}, {Memory::In, balanced_begin(total, n, r), own}));
  if (n == 1) return 0;
  // The blocks of origin o are in Tmp in order of distance. The nearest block has arrived and
  // stays.
  const int64_t half = total;
  plan.tmp_count = 2 * half;
  int64_t bundle = 0;
  for (int d = 1; d < n; ++d) {
    const int64_t c = block(r + d);
    plan.steps.push_back(
        copy({Memory::Tmp, bundle, c}, {Memory::In, balanced_begin(total, n, wrap(r + d)), c}));
    bundle += c;
  }
  int64_t from = 0;
  for (int s = 0; s < n - 1; ++s) {
    const int origin = wrap(r - 1 - s);
    int64_t arriving = 0;
    for (int d = s + 1; d < n; ++d) arriving += block(origin + d);
    const int64_t to = ((s + 1) % 2) * half;
    plan.steps.push_back(exchange(s, wrap(r + 1), {Memory::Tmp, from, bundle}, wrap(r - 1),
                                  {Memory::Tmp, to, arriving}));
    plan.steps.push_back(copy({Memory::Out, origin * own, own}, {Memory::Tmp, to, own}));
    from = to + own;
    bundle = arriving - own;
  }
  return n - 1;
}

// A chain from the root in at most 64 segments (S) of at least 64 Ki elements. N-2+S rounds; all
// ranks but the last send M.
int chain_broadcast(CommPlan& plan, const PlanRequest& request) {
  const int n = request.size;
  if (n == 1) return 0;
  const Members m = ranks_from(request.root, n, request.rank);
  const int segments = static_cast<int>(std::clamp<int64_t>(request.count >> 16, 1, 64));
  const std::vector<Piece> pieces = balanced_pieces({Memory::Out, 0, request.count}, segments);
  const bool has_next = m.me < n - 1;
  for (int s = 0; s <= segments; ++s) {  // receives segment s in the round that sends s - 1
    const bool receives = m.me > 0 && s < segments;
    const bool sends = has_next && (m.me > 0 ? s > 0 : s < segments);
    if (!receives && !sends) continue;
    const int sent = m.me > 0 ? s - 1 : s;
    plan.steps.push_back(exchange(s + std::max(m.me - 1, 0), sends ? m.at(m.me + 1) : -1,
                                  sends ? pieces[sent] : Piece{}, receives ? m.at(m.me - 1) : -1,
                                  receives ? pieces[s] : Piece{}));
  }
  return n - 2 + segments;
}

}  // namespace trireme::algorithms
