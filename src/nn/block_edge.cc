#include "nn/block_edge.h"

#include <array>

#include "collectives/move_collective.h"
#include "nn/residual.h"

namespace trireme {
namespace {

// The rows of every rank.
struct Parts {
  int64_t num_tokens;
  int ranks;
  int64_t begin(int rank) const { return balanced_begin(num_tokens, ranks, rank); }
  int64_t count(int rank) const { return balanced_count(num_tokens, ranks, rank); }
  MatrixRef of(const MatrixRef& x_TC, int rank) const {
    return rows_of(x_TC, begin(rank), count(rank));
  }
};

int behind(const Group& tp, int steps) { return (tp.rank() + 2 * tp.size() - steps) % tp.size(); }

// Sums of so many pieces, each while the next is multiplied.
void sum_pieces(Ctx& ctx, const MultiplyRows& multiply, const MatrixRef& x_TC) {
  std::array<Work, kRowPieces> sums;
  for (int piece = 0; piece < kRowPieces; ++piece) {
    const int64_t begin = balanced_begin(x_TC.rows, kRowPieces, piece);
    const int64_t count = balanced_count(x_TC.rows, kRowPieces, piece);
    if (count == 0) continue;
    multiply(begin, count);
    const TensorRef rows = flat(rows_of(x_TC, begin, count));
    sums[size_t(piece)] = ctx.tp.start(
        {.in = rows, .out = rows, .algorithm = algorithm_of_move(Collective::AllReduce)});
  }
  for (Work& sum : sums) sum.wait();
}

}  // namespace

void BlockEdge::gather_and_multiply(Ctx& ctx, const Redistribution& change, const MatrixRef& x_TC,
                                    const MatrixRef& full_TC, const MultiplyRows& multiply) const {
  if (in_pieces && change.from.kind == Placement::Kind::Shard) {
    return gather_round(ctx, x_TC, full_TC, multiply);
  }
  redistribute_tokens(ctx, change, full_TC.rows, x_TC, full_TC);
  multiply(0, full_TC.rows);
}

// Own rows first; meanwhile those of the rank before come, which had them first.
void BlockEdge::gather_round(Ctx& ctx, const MatrixRef& x_TC, const MatrixRef& full_TC,
                             const MultiplyRows& multiply) const {
  Group& tp = ctx.tp;
  const Parts parts{full_TC.rows, tp.size()};
  ctx.kernels.copy_matrix(ctx.stream, {x_TC, parts.of(full_TC, tp.rank())});
  for (int step = 0; step < tp.size(); ++step) {
    const int here = behind(tp, step), coming = behind(tp, step + 1);
    Work sent, received;
    if (step + 1 < tp.size()) {
      sent = tp.start_send(flat(parts.of(full_TC, here)), behind(tp, -1));
      received = tp.start_recv(flat(parts.of(full_TC, coming)), behind(tp, 1));
    }
    if (parts.count(here) > 0) multiply(parts.begin(here), parts.count(here));
    received.wait();
    sent.wait();
  }
}

void BlockEdge::multiply_and_sum(Ctx& ctx, const Redistribution& change,
                                 const MultiplyRows& multiply, const MatrixRef& partial_TC,
                                 const MatrixRef& y_TC) const {
  const bool in_parts = change.to.kind == Placement::Kind::Shard;
  if (in_pieces && in_parts) return sum_round(ctx, multiply, partial_TC, y_TC);
  if (in_pieces && change.from == Placement::partial()) return sum_pieces(ctx, multiply, y_TC);
  multiply(0, partial_TC.rows);
  redistribute_tokens(ctx, change, partial_TC.rows, partial_TC, y_TC);
}

// A part's sum begins behind its owner and ends there; own rows are multiplied last.
void BlockEdge::sum_round(Ctx& ctx, const MultiplyRows& multiply, const MatrixRef& partial_TC,
                          const MatrixRef& y_TC) const {
  Group& tp = ctx.tp;
  const Parts parts{partial_TC.rows, tp.size()};
  Work sent, received;
  for (int step = 0; step < tp.size(); ++step) {
    const int here = behind(tp, step + 1);
    const MatrixRef rows = parts.of(partial_TC, here);
    if (rows.rows > 0) multiply(parts.begin(here), rows.rows);
    if (step > 0) {
      received.wait();
      ctx.kernels.sum(ctx.stream, {flat(rows_of(sum_RC, 0, rows.rows)), flat(rows), flat(rows)});
    }
    if (step + 1 == tp.size()) break;
    const MatrixRef coming = rows_of(sum_RC, 0, parts.count(behind(tp, step + 2)));
    sent.wait();
    sent = tp.start_send(flat(rows), behind(tp, -1));
    received = tp.start_recv(flat(coming), behind(tp, 1));
  }
  sent.wait();
  ctx.kernels.copy_matrix(ctx.stream, {parts.of(partial_TC, tp.rank()), y_TC});
}

}  // namespace trireme
