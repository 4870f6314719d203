#include <algorithm>

#include "collectives/algorithms/algorithms.h"

// Binomial trees over member indices: the parent of i is i without its lowest set bit. A parent
// receives the aligned subtrees of its children in rising order, so the sum is the canonical tree.

namespace trireme::algorithms {
namespace {

int num_levels(int n) {
  int levels = 0;
  while ((1 << levels) < n) ++levels;
  return levels;
}

// Number of levels on which member i receives: those below its lowest set bit (all levels for
// member 0).
int own_level(int i, int n) {
  int level = 0;
  while (level < num_levels(n) && (i & (1 << level)) == 0) ++level;
  return level;
}

}  // namespace

// L rounds; every member but 0 sends M once.
int tree_reduce_in_place(CommPlan& plan, int round, const Members& m, Piece whole) {
  const int n = m.size();
  const int level = own_level(m.me, n);
  for (int l = 0; l < level; ++l) {
    if (m.me + (1 << l) >= n) continue;
    plan.steps.push_back(reducing(recv_only(round + l, m.at(m.me + (1 << l)), whole), whole, true));
  }
  if (m.me != 0) plan.steps.push_back(send_only(round + level, m.at(m.me - (1 << level)), whole));
  return num_levels(n);
}

// L rounds; every member but 0 receives M once.
int tree_broadcast(CommPlan& plan, int round, const Members& m, Piece whole) {
  const int n = m.size();
  const int levels = num_levels(n);
  const int level = own_level(m.me, n);
  if (m.me != 0) {
    plan.steps.push_back(recv_only(round + levels - 1 - level, m.at(m.me - (1 << level)), whole));
  }
  for (int l = level - 1; l >= 0; --l) {
    if (m.me + (1 << l) >= n) continue;
    plan.steps.push_back(send_only(round + levels - 1 - l, m.at(m.me + (1 << l)), whole));
  }
  return levels;
}

// Like the in-place version, but the inputs stay unchanged: inner members add in scratch.
int tree_reduce(CommPlan& plan, int round, const Members& m, int64_t count) {
  const int n = m.size();
  const int level = own_level(m.me, n);
  const Memory sum_memory = m.me == 0 ? Memory::Out : Memory::Tmp;
  Piece sum{Memory::In, 0, count};
  for (int l = 0; l < level; ++l) {
    if (m.me + (1 << l) >= n) continue;
    const Piece target{sum_memory, 0, count};
    if (sum_memory == Memory::Tmp) plan.tmp_count = std::max(plan.tmp_count, count);
    plan.steps.push_back(reducing(recv_only(round + l, m.at(m.me + (1 << l)), target), sum, true));
    sum = target;
  }
  if (m.me != 0) plan.steps.push_back(send_only(round + level, m.at(m.me - (1 << level)), sum));
  if (n == 1) plan.steps.push_back(copy({Memory::Out, 0, count}, sum));
  return num_levels(n);
}

// L rounds; a member receives its whole subtree and forwards its children's parts. The root sends M
// - c_root; all members together send (M/2) log2 N for N = 2^k. Subtrees are contiguous in the
// order from the root.
int tree_scatter(CommPlan& plan, const PlanRequest& request, std::span<const int64_t> counts) {
  const int n = request.size;
  const Members m = ranks_from(request.root, n, request.rank);
  const std::vector<Piece> in = pieces_of(Memory::In, counts);
  std::vector<int64_t> begin(n + 1, 0);  // in the order from the root
  for (int i = 0; i < n; ++i) begin[i + 1] = begin[i] + counts[m.at(i)];
  const int levels = num_levels(n);
  const int level = own_level(m.me, n);
  const int64_t base = begin[m.me];
  const auto subtree = [&](int i, int l) {  // elements of members [i, i + 2^l)
    const int end = std::min(n, i + (1 << l));
    return Piece{Memory::Tmp, begin[i] - base, begin[end] - begin[i]};
  };
  if (m.me == 0) {
    plan.tmp_count = begin[n];
    for (int i = 1; i < n; ++i) {
      plan.steps.push_back(copy({Memory::Tmp, begin[i], counts[m.at(i)]}, in[m.at(i)]));
    }
    plan.steps.push_back(copy({Memory::Out, 0, counts[request.root]}, in[request.root]));
  } else {
    Piece mine = subtree(m.me, level);
    if (level == 0) mine = {Memory::Out, 0, counts[request.rank]};
    if (level > 0) plan.tmp_count = mine.count;
    plan.steps.push_back(recv_only(levels - 1 - level, m.at(m.me - (1 << level)), mine));
  }
  for (int l = level - 1; l >= 0; --l) {
    if (m.me + (1 << l) >= n) continue;
    plan.steps.push_back(
        send_only(levels - 1 - l, m.at(m.me + (1 << l)), subtree(m.me + (1 << l), l)));
  }
  if (m.me != 0 && level > 0) {
    const int64_t own = counts[request.rank];
    plan.steps.push_back(copy({Memory::Out, 0, own}, {Memory::Tmp, 0, own}));
  }
  return levels;
}

// The reverse of tree_scatter.
int tree_gather(CommPlan& plan, const PlanRequest& request, std::span<const int64_t> counts) {
  const int n = request.size;
  const Members m = ranks_from(request.root, n, request.rank);
  const std::vector<Piece> out = pieces_of(Memory::Out, counts);
  std::vector<int64_t> begin(n + 1, 0);
  for (int i = 0; i < n; ++i) begin[i + 1] = begin[i] + counts[m.at(i)];
  const int level = own_level(m.me, n);
  const int64_t base = begin[m.me];
  const int64_t own = counts[request.rank];
  const auto subtree = [&](int i, int l) {
    const int end = std::min(n, i + (1 << l));
    return Piece{Memory::Tmp, begin[i] - base, begin[end] - begin[i]};
  };
  Piece mine = subtree(m.me, level);
  if (level == 0) {
    mine = {Memory::In, 0, own};
  } else {
    plan.tmp_count = mine.count;
    if (m.me != 0) plan.steps.push_back(copy({Memory::Tmp, 0, own}, {Memory::In, 0, own}));
  }
  for (int l = 0; l < level; ++l) {
    if (m.me + (1 << l) >= n) continue;
    plan.steps.push_back(recv_only(l, m.at(m.me + (1 << l)), subtree(m.me + (1 << l), l)));
  }
  if (m.me != 0) {
    plan.steps.push_back(send_only(level, m.at(m.me - (1 << level)), mine));
    return num_levels(n);
  }
  for (int i = 1; i < n; ++i) {
    plan.steps.push_back(copy(out[m.at(i)], {Memory::Tmp, begin[i], counts[m.at(i)]}));
  }
  plan.steps.push_back(copy(out[request.root], {Memory::In, 0, own}));
  return num_levels(n);
}

}  // namespace trireme::algorithms
