#include "nn/residual.h"

#include "nn/positions.h"
#include "sharding/redistribute.h"

namespace trireme {
namespace {

TensorRef tensor(const MatrixRef& x_TC) {
  TRIREME_CHECK(x_TC.stride == x_TC.cols, "the residual stream has no gaps");
  return {x_TC.data, x_TC.dtype, Shape{x_TC.rows, x_TC.cols}};
}

void multiply(Ctx& ctx, const Linear& linear, MatrixRef x_TF, MatrixRef residual_TC,
              MatrixRef y_TC) {
  if (x_TF.rows > 0) linear.forward(ctx, x_TF, y_TC, residual_TC);
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

void drop_tokens(Ctx& ctx, const MicrobatchInfo& info, RngKey key, const ModelShard& model,
                 MatrixRef x_TC, MatrixRef residual_TC, MatrixRef y_TC) {
  const bool is_split = model.residual.kind == Placement::Kind::Shard;
  const int64_t num_tokens = info.num_sequences * model.local_len();
  ctx.kernels.dropout(
      ctx.stream,
      {.x_TC = x_TC,
       .residual_TC = residual_TC,
       .y_TC = y_TC,
       .probability = static_cast<float>(model.dropout),
       .key = key,
       .first_sample = info.first_sample,
       .rows_per_sample = model.local_len(),
       .positions = positions_of(model.chunks),
       .first_row = is_split ? own_tokens(ctx.tp, model.residual, num_tokens).begin : 0});
}

void project_onto_residual(Ctx& ctx, const MicrobatchInfo& info, const Linear& linear, RngKey key,
                           const ModelShard& model, MatrixRef x_TF, MatrixRef residual_TC,
                           MatrixRef partial_TC, MatrixRef y_TC) {
  const bool drops = drops_residual(model, info);
  const Linear without_bias{{linear.params.w_FC, {}}};
  const int64_t num_tokens = partial_TC.rows;
  const TokenRows own = own_tokens(ctx.tp, model.residual, num_tokens);
  const int64_t end = own.end();
  const auto rows = [](MatrixRef x, int64_t begin, int64_t count) {
    return rows_of(x, begin, count);
  };
  multiply(ctx, without_bias, rows(x_TF, 0, own.begin), {}, rows(partial_TC, 0, own.begin));
  multiply(ctx, linear, rows(x_TF, own.begin, own.count), drops ? MatrixRef{} : residual_TC,
           rows(partial_TC, own.begin, own.count));
  multiply(ctx, without_bias, rows(x_TF, end, num_tokens - end), {},
           rows(partial_TC, end, num_tokens - end));
  leave_block_onto_residual(ctx, info, key, model, residual_TC, partial_TC, y_TC);
}

void leave_block_onto_residual(Ctx& ctx, const MicrobatchInfo& info, RngKey key,
                               const ModelShard& model, MatrixRef residual_TC, MatrixRef partial_TC,
                               MatrixRef y_TC) {
  redistribute_tokens(ctx, leave_block(model.residual), partial_TC.rows, partial_TC, y_TC);
  if (drops_residual(model, info)) drop_tokens(ctx, info, key, model, y_TC, residual_TC, y_TC);
}

void residual_dropout_backward(Ctx& ctx, const MicrobatchInfo& info, RngKey key,
                               const ModelShard& model, MatrixRef dy_TC, MatrixRef dp_TC,
                               MatrixRef dp_full_TC) {
  if (model.dropout > 0.0) drop_tokens(ctx, info, key, model, dy_TC, {}, dp_TC);
  redistribute_tokens(ctx, backward_of(leave_block(model.residual)), dp_full_TC.rows, dp_TC,
                      dp_full_TC);
}

}  // namespace trireme
