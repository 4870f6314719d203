#include "nn/expert_exchange.h"

namespace trireme {

void ExpertExchange::tell_counts(Ctx& ctx) const {
  if (begin_E.data == begin_R.data) return;
  const int64_t E = begin_E.num_elements() - 1;
  const int32_t* begin = begin_E.as<int32_t>();
  int32_t* taken = taken_E.as<int32_t>();
  int32_t* end_R = begin_R.as<int32_t>() + 1;
  for (int64_t e = 0; e < E; ++e) taken[e] = begin[e + 1] - begin[e];
  ctx.ep.run({.collective = Collective::AllToAll,
              .in = taken_E,
              .out = {end_R, DType::I32, Shape{E}},
              .is_short = true});
  end_R[-1] = 0;
  for (int64_t e = 0; e < E; ++e) end_R[e] += end_R[e - 1];
}

void ExpertExchange::dispatch(Ctx& ctx, const MatrixRef& x_AC, const MatrixRef& y_RC) const {
  move(ctx, {begin_E, x_AC}, {begin_R, y_RC});
}

void ExpertExchange::give_back(Ctx& ctx, const MatrixRef& x_RC, const MatrixRef& y_AC) const {
  move(ctx, {begin_R, x_RC}, {begin_E, y_AC});
}

void ExpertExchange::give_back_before_rows(Ctx& ctx, const TensorRef& x_R,
                                           const TensorRef& y_A) const {
  move(ctx, {begin_R, as_column(x_R)}, {begin_E, as_column(y_A)}, /*joins_next=*/true);
}

void ExpertExchange::move(Ctx& ctx, const Rows& from, const Rows& to, bool joins_next) const {
  if (from.rows.data == to.rows.data) return;
  const int ranks = ctx.ep.size();
  const int64_t E = begin_E.num_elements() - 1, held = E / ranks;
  int64_t* sent = counts_2P.as<int64_t>();
  int64_t* received = sent + ranks;
  // Elements of every rank's part; in both orders the parts of ranks lie one behind the other.
  const auto fill = [&](const Rows& part, int64_t* counts) {
    const int32_t* begin = part.begin_E.as<int32_t>();
    for (int rank = 0; rank < ranks; ++rank) {
      counts[rank] = (begin[(rank + 1) * held] - begin[rank * held]) * part.rows.cols;
    }
    return begin[E] * part.rows.cols;
  };
  const int64_t num_sent = fill(from, sent);
  const int64_t num_received = fill(to, received);
  ctx.ep.run({.collective = Collective::AllToAll,
              .in = {from.rows.data, from.rows.dtype, Shape{num_sent}},
              .out = {to.rows.data, to.rows.dtype, Shape{num_received}},
              .counts = {sent, size_t(ranks)},
              .recv_counts = {received, size_t(ranks)},
              .is_short = from.rows.cols == 1,
              .joins_next = joins_next});
}

}  // namespace trireme
