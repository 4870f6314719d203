#pragma once

#include <span>
#include <vector>

#include "collectives/plan.h"

// Each function appends the steps of one rank, starting with round `round`, and returns the number
// of rounds, which is the same on every rank. N: ranks; M: elements of the full vector; c_i: chunk
// of rank i; L = ceil(log2 N).

namespace trireme::algorithms {

// The ranks that take part, in their order, and the index of the planning rank among them.
struct Members {
  std::vector<int> ranks;  // empty: ranks 0 to count - 1, in this order
  int me = 0;
  int count = 0;  // used if `ranks` is empty

  int size() const { return ranks.empty() ? count : static_cast<int>(ranks.size()); }
  int index(int i) const { return ((i % size()) + size()) % size(); }
  int at(int i) const { return ranks.empty() ? index(i) : ranks[index(i)]; }
};
Members all_ranks(int size, int rank);
// Returns all ranks in cyclic order, starting with `root`.
Members ranks_from(int root, int size, int rank);

std::vector<Piece> balanced_pieces(Piece whole, int parts);
std::vector<Piece> pieces_of(Memory memory, std::span<const int64_t> counts);

Step exchange(int round, int send_to, Piece send, int recv_from, Piece recv);
Step send_only(int round, int to, Piece piece);
Step recv_only(int round, int from, Piece piece);
// Makes `step` a reduction. `operand_is_lower` says whether the operand sums lower ranks than the
// received piece.
Step reducing(Step step, Piece operand, bool operand_is_lower);
Step copy(Piece target, Piece source);

// Works in place on Out. After the reduce-scatter member i owns the sum of chunk i + 1.
int ring_reduce_scatter_in_place(CommPlan&, int round, const Members&, std::span<const Piece>);
int ring_all_gather_in_place(CommPlan&, int round, const Members&, std::span<const Piece> chunks,
                             int owned_offset);
// Reduces the chunks of In; the sum of the own chunk is in `result`. The scratch from tmp_begin
// holds two of the largest chunks.
int ring_reduce_scatter(CommPlan&, int round, const Members&, std::span<const Piece> in_chunks,
                        Piece result, int64_t tmp_begin);
int ring_all_to_all(CommPlan&, const PlanRequest&);
int chain_broadcast(CommPlan&, const PlanRequest&);

// Rooted at member 0, in place. Reduce leaves the sum in Out of member 0 and partial sums in Out of
// inner members.
int tree_reduce_in_place(CommPlan&, int round, const Members&, Piece whole);
int tree_broadcast(CommPlan&, int round, const Members&, Piece whole);
int tree_reduce(CommPlan&, int round, const Members&, int64_t count);  // from In to Out of member 0
int tree_scatter(CommPlan&, const PlanRequest&, std::span<const int64_t> counts);
int tree_gather(CommPlan&, const PlanRequest&, std::span<const int64_t> counts);

int doubling_all_reduce(CommPlan&, int round, const Members&, Piece whole);
int halving_doubling_all_reduce(CommPlan&, int round, const Members&, Piece whole);
int halving_reduce_scatter(CommPlan&, const PlanRequest&, std::span<const int64_t> counts);
int bruck_all_gather(CommPlan&, const PlanRequest&, std::span<const int64_t> counts);
int bruck_all_to_all(CommPlan&, const PlanRequest&);
int dissemination_barrier(CommPlan&, const PlanRequest&);

int naive_all_reduce(CommPlan&, const PlanRequest&);
int naive_all_gather(CommPlan&, const PlanRequest&, std::span<const int64_t> counts);
int naive_reduce_scatter(CommPlan&, const PlanRequest&, std::span<const int64_t> counts);
int pairwise_all_to_all(CommPlan&, const PlanRequest&, std::span<const int64_t> send_counts,
                        std::span<const int64_t> recv_counts);

int parameter_server_all_reduce(CommPlan&, const PlanRequest&);
int linear_reduce(CommPlan&, const PlanRequest&);
int linear_broadcast(CommPlan&, const PlanRequest&);
int linear_scatter(CommPlan&, const PlanRequest&, std::span<const int64_t> counts);
int linear_gather(CommPlan&, int round, const PlanRequest&, std::span<const int64_t> counts,
                  Piece own);

int hierarchical_all_reduce(CommPlan&, const PlanRequest&);

}  // namespace trireme::algorithms
