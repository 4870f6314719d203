#include "nn/residual.h"

#include <algorithm>

#include "nn/positions.h"
#include "sharding/redistribute.h"

namespace trireme {
namespace {

TensorRef tensor(const MatrixRef& x_TC) {
  TRIREME_CHECK(x_TC.stride == x_TC.cols, "the residual stream has no gaps");
  return {x_TC.data, x_TC.dtype, Shape{x_TC.rows, x_TC.cols}};
}

}  // namespace

TokenRows own_tokens(const Group& tp, Placement residual, int64_t num_tokens) {
  if (residual.kind == Placement::Kind::Shard) {
    return {balanced_begin(num_tokens, tp.size(), tp.rank()),
            balanced_count(num_tokens, tp.size(), tp.rank())};
  }
  return {0, tp.rank() == 0 ? num_tokens : 0};
}

void redistribute_tokens(Ctx& ctx, const Redistribution& change, int64_t num_tokens, MatrixRef x_TC,
                         MatrixRef y_TC, CallSite site) {
  redistribute(ctx.tp, change, Shape{num_tokens, x_TC.cols}, tensor(x_TC), tensor(y_TC), {}, site);
}

void drop_features(Ctx& ctx, const MicrobatchInfo& info, RngKey key, const ModelShard& model,
                   Placement over_tp, const AxisPart& columns, MatrixRef x_TC,
                   MatrixRef residual_TC, MatrixRef y_TC) {
  const int64_t rows = model.local_len();  // of a sample: tokens, or one for an image
  const bool has_some_rows = over_tp == Placement::shard(0);
  const TokenRows own = own_tokens(ctx.tp, over_tp, info.num_sequences * rows);
  ctx.kernels.dropout(ctx.stream, {.x_TC = x_TC,
                                   .residual_TC = residual_TC,
                                   .y_TC = y_TC,
                                   .probability = static_cast<float>(model.dropout),
                                   .key = key,
                                   .first_sample = info.first_sample,
                                   .rows_per_sample = rows,
                                   .positions = positions_of(model.chunks),
                                   .first_row = has_some_rows ? own.begin : 0,
                                   .first_column = columns.begin,
                                   .all_columns = columns.total});
}

SumOnResidual SumOnResidual::bind(const OpBinding& b) {
  const Op& op = b.op();
  const OpMemory& memory = b.memory();
  const Frame scratch = b.scratch();
  const TensorRef sum = scratch.find("edge.sum_RC");
  SumOnResidual result{b.model(), op.leave, {}, {}, {}, {}, {}, {}, {}, {}, {}};
  result.edge = {b.model().residual, op.leave && op.leave->in_pieces,
                 sum ? matrix(sum) : MatrixRef{}};
  if (!op.dropout.empty()) result.dropout_key = b.key_of(op.dropout);
  result.early_residual_TC = b.at(memory.early_residual);
  result.late_residual_TC = b.at(memory.late_residual);
  result.partial_TC = b.at(memory.partial);
  result.y_TC = b.output();
  result.dy_TC = b.output_grad();
  result.dp_TC = b.at(memory.dropped_grad);
  result.dp_full_TC = b.at(memory.gathered_grad);
  return result;
}

void SumOnResidual::drop(Ctx& ctx, const MicrobatchInfo& info, MatrixRef x_TC,
                         MatrixRef residual_TC, MatrixRef y_TC) const {
  drop_features(ctx, info, *dropout_key, model, model.residual, {}, x_TC, residual_TC, y_TC);
}

void SumOnResidual::forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m,
                            const MultiplyRows& multiply) const {
  if (!leave) return multiply(0, m(partial_TC).rows);
  edge.multiply_and_sum(ctx, leave->change, multiply, m(partial_TC), m(y_TC));
  if (drops(info)) {
    drop(ctx, info, m(y_TC), m(late_residual_TC), m(y_TC));
  }
}

void SumOnResidual::backward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m,
                             const MultiplyRows& multiply) const {
  if (!leave) return multiply(0, m(dp_full_TC).rows);
  if (dropout_key) drop(ctx, info, m(dy_TC), {}, m(dp_TC));
  edge.gather_and_multiply(ctx, backward_of(leave->change), m(dp_TC), m(dp_full_TC), multiply);
}

}  // namespace trireme
