#include <algorithm>
#include <bit>

#include "collectives/algorithms/algorithms.h"

// Recursive doubling and halving, nearest partner first. If N is a power of two, every sum has the
// order of the canonical binary tree over the member index. For other N the first 2R members (R = N
// - P, P = 2^K <= N) fold in pairs: the even member gives its vector to the odd one, idles, and
// receives the result.

namespace trireme::algorithms {
namespace {

struct Butterfly {
  int participants = 1;  // P: members that take part in the butterfly
  int folded = 0;        // R: pairs that fold
  int levels = 0;        // K: P = 2^K
  int place = 0;         // index of the planning member among the participants; -1: folded away

  explicit Butterfly(const Members& m) {
    const int n = m.size();
    participants = static_cast<int>(std::bit_floor(static_cast<unsigned>(n)));
    levels = std::countr_zero(static_cast<unsigned>(participants));
    folded = n - participants;
    if (m.me >= 2 * folded) {
      place = m.me - folded;
    } else {
      place = m.me % 2 == 1 ? m.me / 2 : -1;
    }
  }
  int member(int p) const { return p < folded ? 2 * p + 1 : p + folded; }
  int rounds() const { return levels + (folded > 0 ? 2 : 0); }
};

// Adds the even member's vector to the odd one's, in place. Returns the rounds used.
int fold(CommPlan& plan, int round, const Members& m, const Butterfly& b, Piece whole) {
  if (b.folded == 0) return 0;
  if (m.me < 2 * b.folded) {
    if (b.place < 0) {
      plan.steps.push_back(send_only(round, m.at(m.me + 1), whole));
    } else {
      plan.steps.push_back(reducing(recv_only(round, m.at(m.me - 1), whole), whole, false));
    }
  }
  return 1;
}

void unfold(CommPlan& plan, int round, const Members& m, const Butterfly& b, Piece whole) {
  if (m.me >= 2 * b.folded) return;
  if (b.place < 0) {
    plan.steps.push_back(recv_only(round, m.at(m.me + 1), whole));
  } else {
    plan.steps.push_back(send_only(round, m.at(m.me - 1), whole));
  }
}

// Returns one piece that covers neighbouring pieces.
Piece span_of(const std::vector<Piece>& pieces, int begin, int end) {
  const Piece last = pieces[end - 1];
  return {last.memory, pieces[begin].begin, last.begin + last.count - pieces[begin].begin};
}

}  // namespace

// K rounds (+2 if R > 0). A member sends KM; of the first 2R members the even ones send M and the
// odd ones (K+1)M. A round reads one of two buffers and writes the other, because the partner reads
// what this rank adds to.
int doubling_all_reduce(CommPlan& plan, int round, const Members& m, Piece whole) {
  const Butterfly b(m);
  int r = round + fold(plan, round, m, b, whole);
  if (b.place >= 0) {
    const Piece tmp{Memory::Tmp, 0, whole.count};
    if (b.levels > 0) plan.tmp_count = std::max(plan.tmp_count, whole.count);
    Piece from = whole;
    Piece to = tmp;
    for (int k = 0; k < b.levels; ++k) {
      const int partner = b.place ^ (1 << k);
      const int peer = m.at(b.member(partner));
      plan.steps.push_back(
          reducing(exchange(r + k, peer, from, peer, to), from, b.place < partner));
      std::swap(from, to);
    }
    if (b.levels % 2 == 1) plan.steps.push_back(copy(whole, tmp));
  }
  if (b.folded > 0) unfold(plan, r + b.levels, m, b, whole);
  return b.rounds();
}

// 2K rounds (+2 if R > 0). A member sends 2M(P-1)/P; of the first 2R members the even ones send M
// and the odd ones M more. Halving leaves participant p the bit-reversed chunk of p, and doubling
// gathers the chunks back.
int halving_doubling_all_reduce(CommPlan& plan, int round, const Members& m, Piece whole) {
  const Butterfly b(m);
  const int r = round + fold(plan, round, m, b, whole);
  if (b.place >= 0) {
    // Neighbouring chunks of participants [first, first + count).
    const auto chunks = [&](int first, int count) {
      const int64_t from = balanced_begin(whole.count, b.participants, first);
      const int64_t to = balanced_begin(whole.count, b.participants, first + count);
      return Piece{whole.memory, whole.begin + from, to - from};
    };
    int begin = 0;
    int width = b.participants;
    for (int k = 0; k < b.levels; ++k) {
      const int partner = b.place ^ (1 << k);
      const int peer = m.at(b.member(partner));
      const bool keeps_lower = b.place < partner;
      width /= 2;
      const int kept = begin + (keeps_lower ? 0 : width);
      const int given = begin + (keeps_lower ? width : 0);
      const Piece mine = chunks(kept, width);
      plan.steps.push_back(reducing(exchange(r + k, peer, chunks(given, width), peer, mine), mine,
                                    b.place < partner));
      begin = kept;
    }
    for (int k = b.levels - 1; k >= 0; --k) {
      const int peer = m.at(b.member(b.place ^ (1 << k)));
      const int other = begin ^ width;
      plan.steps.push_back(exchange(r + 2 * b.levels - 1 - k, peer, chunks(begin, width), peer,
                                    chunks(other, width)));
      begin = std::min(begin, other);
      width *= 2;
    }
  }
  if (b.folded > 0) unfold(plan, r + 2 * b.levels, m, b, whole);
  return 2 * b.levels + (b.folded > 0 ? 2 : 0);
}

// Needs N = 2^k. L rounds, sends M - c_r. The input is copied with its chunks in bit-reversed
// order, so that nearest-first halving, whose sums are canonical, ends at the rank's own chunk.
int halving_reduce_scatter(CommPlan& plan, const PlanRequest& request,
                           std::span<const int64_t> counts) {
  const int n = request.size;
  const int levels = std::countr_zero(static_cast<unsigned>(n));
  const std::vector<Piece> in = pieces_of(Memory::In, counts);
  std::vector<Piece> chunks(n);
  int64_t at = 0;
  for (int position = 0; position < n; ++position) {
    int chunk = 0;
    for (int k = 0; k < levels; ++k) chunk |= ((position >> k) & 1) << (levels - 1 - k);
    chunks[position] = {Memory::Tmp, at, counts[chunk]};
    plan.steps.push_back(copy(chunks[position], in[chunk]));
    at += counts[chunk];
  }
  plan.tmp_count = at;
  int begin = 0;
  int width = n;
  for (int k = 0; k < levels; ++k) {
    const int peer = request.rank ^ (1 << k);
    width /= 2;
    const int kept = begin + (request.rank < peer ? 0 : width);
    const int given = begin + (request.rank < peer ? width : 0);
    const Piece mine = span_of(chunks, kept, kept + width);
    plan.steps.push_back(
        reducing(exchange(k, peer, span_of(chunks, given, given + width), peer, mine), mine,
                 request.rank < peer));
    begin = kept;
  }
  plan.steps.push_back(copy({Memory::Out, 0, counts[request.rank]}, chunks[begin]));
  return levels;
}

// Works for any N. L rounds, receives M - c_r. The scratch holds the blocks of ranks r, r+1, ... in
// this order.
int bruck_all_gather(CommPlan& plan, const PlanRequest& request, std::span<const int64_t> counts) {
  const int n = request.size;
  const int r = request.rank;
  std::vector<int64_t> begin(n + 1, 0);  // begin of the block of rank r + i
  for (int i = 0; i < n; ++i) begin[i + 1] = begin[i] + counts[(r + i) % n];
  plan.tmp_count = begin[n];
  plan.steps.push_back(copy({Memory::Tmp, 0, counts[r]}, {Memory::In, 0, counts[r]}));
  int rounds = 0;
  for (int have = 1; have < n; have *= 2) {
    const int more = std::min(have, n - have);
    plan.steps.push_back(exchange(rounds++, (r - have + n) % n, {Memory::Tmp, 0, begin[more]},
                                  (r + have) % n,
                                  {Memory::Tmp, begin[have], begin[have + more] - begin[have]}));
  }
  const std::vector<Piece> out = pieces_of(Memory::Out, counts);
  for (int i = 0; i < n; ++i) {
    plan.steps.push_back(copy(out[(r + i) % n], {Memory::Tmp, begin[i], counts[(r + i) % n]}));
  }
  return rounds;
}

// L rounds. A block reaches its destination in one hop per set bit of its distance. Slot d holds a
// block whose destination is d ranks away from its source. Counts must be balanced, so that every
// rank knows the sizes.
int bruck_all_to_all(CommPlan& plan, const PlanRequest& request) {
  const int n = request.size;
  const int r = request.rank;
  const auto wrap = [n](int i) { return ((i % n) + n) % n; };
  const int64_t total = request.count;
  const int64_t slot_size = balanced_count(total, n, 0);
  const int64_t bundle_begin = n * slot_size;  // packed for sending, then as received
  const int64_t landing_begin = bundle_begin + n * slot_size;
  plan.tmp_count = landing_begin + n * slot_size;
  // Size of slot d at `rank` before the round of `bit`: its block came from rank - (d mod bit).
  const auto size_at = [&](int rank, int d, int bit) {
    return balanced_count(total, n, wrap(rank - d % bit + d));
  };
  for (int d = 0; d < n; ++d) {
    const int dest = wrap(r + d);
    const int64_t c = balanced_count(total, n, dest);
    plan.steps.push_back(
        copy({Memory::Tmp, d * slot_size, c}, {Memory::In, balanced_begin(total, n, dest), c}));
  }
  int rounds = 0;
  for (int bit = 1; bit < n; bit *= 2) {
    int64_t sent = 0;
    int64_t received = 0;
    for (int d = 0; d < n; ++d) {
      if ((d & bit) == 0) continue;
      const int64_t c = size_at(r, d, bit);
      plan.steps.push_back(
          copy({Memory::Tmp, bundle_begin + sent, c}, {Memory::Tmp, d * slot_size, c}));
      sent += c;
      received += size_at(wrap(r - bit), d, bit);
    }
    plan.steps.push_back(exchange(rounds++, wrap(r + bit), {Memory::Tmp, bundle_begin, sent},
                                  wrap(r - bit), {Memory::Tmp, landing_begin, received}));
    int64_t at = landing_begin;
    for (int d = 0; d < n; ++d) {
      if ((d & bit) == 0) continue;
      const int64_t c = size_at(wrap(r - bit), d, bit);
      plan.steps.push_back(copy({Memory::Tmp, d * slot_size, c}, {Memory::Tmp, at, c}));
      at += c;
    }
  }
  const int64_t own = balanced_count(total, n, r);
  for (int d = 0; d < n; ++d) {  // the block in slot d came from rank r - d
    plan.steps.push_back(
        copy({Memory::Out, wrap(r - d) * own, own}, {Memory::Tmp, d * slot_size, own}));
  }
  return rounds;
}

// L rounds of empty messages; round k sends to r + 2^k.
int dissemination_barrier(CommPlan& plan, const PlanRequest& request) {
  const int n = request.size;
  plan.sends_empty = true;
  int rounds = 0;
  for (int distance = 1; distance < n; distance *= 2) {
    plan.steps.push_back(exchange(rounds++, (request.rank + distance) % n, {},
                                  (request.rank - distance + n) % n, {}));
  }
  return rounds;
}

}  // namespace trireme::algorithms
