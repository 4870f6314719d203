#pragma once

#include "graph/model_shard.h"
#include "nn/block_edge.h"
#include "nn/linear.h"

namespace trireme {

// Legend: T tokens of the micro-batch; on the residual stream, this rank's part of them.

// y = x as enter_block, leave_block or their backward say. Where they leave the values as they are,
// x and y are the same memory.
void redistribute_tokens(Ctx& ctx, const Redistribution& change, int64_t num_tokens, MatrixRef x_TC,
                         MatrixRef y_TC, CallSite site = CallSite::current());

// y = residual + dropout(x w^T + b), where x w^T is summed over the tp ranks. Without dropout the
// bias and the residual are addends of that sum, fused into the matmul of one rank for each token.
// partial: all tokens; y itself where the residual stream has all tokens, too.
void project_onto_residual(Ctx& ctx, const MicrobatchInfo& info, const Linear& linear, RngKey key,
                           const ModelShard& model, const BlockEdge& edge, MatrixRef x_TF,
                           MatrixRef residual_TC, MatrixRef partial_TC, MatrixRef y_TC);

// The tokens that are this rank's alone when the residual stream becomes addends of a sum.
struct TokenRows {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t end() const { return begin + count; }
};
TokenRows own_tokens(const Group& tp, Placement residual, int64_t num_tokens);

// y = the sum of the ranks' `partial`; with dropout, residual + dropout(that).
void leave_block_onto_residual(Ctx& ctx, const MicrobatchInfo& info, RngKey key,
                               const ModelShard& model, MatrixRef residual_TC, MatrixRef partial_TC,
                               MatrixRef y_TC);
inline bool drops_residual(const ModelSpec& model, const MicrobatchInfo& info) {
  return model.dropout > 0.0 && info.training;
}

// The gradient behind dropout, gathered and read: dp = dropout's gradient of dy, full = dp for all
// tokens, whose rows are then multiplied. Without dropout dp is dy itself and nothing is done; the
// same holds for full.
void residual_dropout_backward(Ctx& ctx, const MicrobatchInfo& info, RngKey key,
                               const ModelShard& model, const BlockEdge& edge, MatrixRef dy_TC,
                               MatrixRef dp_TC, MatrixRef dp_full_TC, const MultiplyRows& multiply);

// dropout(x) + residual on this rank's part of the residual stream.
void drop_tokens(Ctx& ctx, const MicrobatchInfo& info, RngKey key, const ModelShard& model,
                 MatrixRef x_TC, MatrixRef residual_TC, MatrixRef y_TC);

}  // namespace trireme
