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
                           const ModelShard& model, const BlockEdge& edge, MatrixRef x_TF,
                           MatrixRef residual_TC, MatrixRef partial_TC, MatrixRef y_TC) {
  const bool drops = drops_residual(model, info);
  Linear without_bias = linear;
  without_bias.params.b_F = {};
  const TokenRows own = own_tokens(ctx.tp, model.residual, partial_TC.rows);
  const auto multiply = [&](const Linear& by, int64_t begin, int64_t end, MatrixRef residual) {
    if (begin >= end) return;
    by.forward(ctx, rows_of(x_TF, begin, end - begin), rows_of(partial_TC, begin, end - begin),
               residual ? rows_of(residual, begin - own.begin, end - begin) : residual);
  };
  edge.multiply_and_sum(
      ctx, leave_block(model.residual),
      [&](int64_t begin, int64_t count) {
        const int64_t end = begin + count;
        const int64_t own_begin = std::clamp(own.begin, begin, end);
        const int64_t own_end = std::clamp(own.end(), own_begin, end);
        multiply(without_bias, begin, own_begin, {});
        multiply(linear, own_begin, own_end, drops ? MatrixRef{} : residual_TC);
        multiply(without_bias, own_end, end, {});
      },
      partial_TC, y_TC);
  if (drops) drop_tokens(ctx, info, key, model, y_TC, residual_TC, y_TC);
}

void leave_block_onto_residual(Ctx& ctx, const MicrobatchInfo& info, RngKey key,
                               const ModelShard& model, MatrixRef residual_TC, MatrixRef partial_TC,
                               MatrixRef y_TC) {
  redistribute_tokens(ctx, leave_block(model.residual), partial_TC.rows, partial_TC, y_TC);
  if (drops_residual(model, info)) drop_tokens(ctx, info, key, model, y_TC, residual_TC, y_TC);
}

void residual_dropout_backward(Ctx& ctx, const MicrobatchInfo& info, RngKey key,
                               const ModelShard& model, const BlockEdge& edge, MatrixRef dy_TC,
                               MatrixRef dp_TC, MatrixRef dp_full_TC,
                               const MultiplyRows& multiply) {
  if (model.dropout > 0.0) drop_tokens(ctx, info, key, model, dy_TC, {}, dp_TC);
  edge.gather_and_multiply(ctx, backward_of(leave_block(model.residual)), dp_TC, dp_full_TC,
                           multiply);
}

}  // namespace trireme
